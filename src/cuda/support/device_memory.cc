// Devices, memory, streams, events and graphs for programs that have no CUDA runtime of their own.
// Host-only.
#include <fmt/format.h>

#include <algorithm>

#include "src/cuda/support/device.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda {
namespace {

constexpr std::string_view kOperation = "device_memory";

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t graph_of(void* graph) { return static_cast<cudaGraphExec_t>(graph); }
Status check(cudaError_t error) { return cuda::check(kOperation, error); }

Status count(int* num_devices) { return check(cudaGetDeviceCount(num_devices)); }
Status current(int* device) { return check(cudaGetDevice(device)); }
Status make_current(int device) { return check(cudaSetDevice(device)); }
Status system_name(int device, std::string* name) {
  char id[32];  // "0000:1b:00.0"
  VSA_TRY(check(cudaDeviceGetPCIBusId(id, sizeof id, device)));
  *name = id;
  return {};
}

Status create_stream(void** stream) {
  cudaStream_t created = nullptr;
  VSA_TRY(check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking)));
  *stream = created;
  return {};
}
void destroy_stream(void* stream) { cudaStreamDestroy(stream_of(stream)); }
Status wait(void* stream) { return check(cudaStreamSynchronize(stream_of(stream))); }

size_t at_least_one(int64_t size_bytes) {
  return static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
}
Status allocate(int64_t size_bytes, void** data) {
  return check(cudaMalloc(data, at_least_one(size_bytes)));
}
void release(void* data) { cudaFree(data); }
Status available(int64_t* size_bytes) {
  size_t free = 0;
  size_t total = 0;
  VSA_TRY(check(cudaMemGetInfo(&free, &total)));
  *size_bytes = static_cast<int64_t>(free);
  return {};
}
Status allocate_pinned(int64_t size_bytes, void** data) {
  return check(cudaHostAlloc(data, at_least_one(size_bytes), cudaHostAllocPortable));
}
void release_pinned(void* data) { cudaFreeHost(data); }

Status copy_in_pinned(void* stream, void* to, const void* from, int64_t size_bytes) {
  return check(cudaMemcpyAsync(to, from, static_cast<size_t>(size_bytes), cudaMemcpyHostToDevice,
                               stream_of(stream)));
}
/// Copies on the stream of the calls, because a copy on the default stream may still be under way
/// when a call on another stream begins. Pageable memory has been read when cudaMemcpyAsync
/// returns, pinned memory has not.
Status copy_in(void* stream, void* to, const void* from, int64_t size_bytes) {
  VSA_TRY(copy_in_pinned(stream, to, from, size_bytes));
  cudaPointerAttributes attributes{};
  VSA_TRY(check(cudaPointerGetAttributes(&attributes, from)));
  return attributes.type == cudaMemoryTypeUnregistered ? Status() : wait(stream);
}
Status copy_out(void* stream, void* to, const void* from, int64_t size_bytes) {
  VSA_TRY(wait(stream));
  return check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost));
}
Status fill(void* stream, void* to, uint8_t value, int64_t size_bytes) {
  return check(cudaMemsetAsync(to, value, static_cast<size_t>(size_bytes), stream_of(stream)));
}

Status create_event(void** event) {
  cudaEvent_t created = nullptr;
  VSA_TRY(check(cudaEventCreate(&created)));
  *event = created;
  return {};
}
void destroy_event(void* event) { cudaEventDestroy(event_of(event)); }
Status record(void* stream, void* event) {
  return check(cudaEventRecord(event_of(event), stream_of(stream)));
}
Status wait_for(void* stream, void* event) {
  return check(cudaStreamWaitEvent(stream_of(stream), event_of(event)));
}
Status wait_event(void* event) { return check(cudaEventSynchronize(event_of(event))); }
Status elapsed_ms(void* start, void* end, double* ms) {
  float elapsed = 0.0F;
  VSA_TRY(check(cudaEventElapsedTime(&elapsed, event_of(start), event_of(end))));
  *ms = static_cast<double>(elapsed);
  return {};
}

/// Thread-local: other threads may allocate and wait while this one captures.
Status begin_capture(void* stream) {
  return check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
}
Status end_capture(void* stream, void** graph) {
  cudaGraph_t captured = nullptr;
  VSA_TRY(check(cudaStreamEndCapture(stream_of(stream), &captured)));
  cudaGraphExec_t ready = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&ready, captured, 0);
  cudaGraphDestroy(captured);  // what was made of it is its own
  VSA_TRY(check(made));
  *graph = ready;
  return {};
}
Status launch(void* graph, void* stream) {
  return check(cudaGraphLaunch(graph_of(graph), stream_of(stream)));
}
void destroy_graph(void* graph) { cudaGraphExecDestroy(graph_of(graph)); }

constexpr GraphFunctions kGraphs{.begin_capture = begin_capture,
                                 .end_capture = end_capture,
                                 .launch = launch,
                                 .destroy = destroy_graph};

}  // namespace

constinit const DeviceFunctions kDeviceFunctions{.count = count,
                                                 .current = current,
                                                 .make_current = make_current,
                                                 .system_name = system_name,
                                                 .create_stream = create_stream,
                                                 .destroy_stream = destroy_stream,
                                                 .wait = wait,
                                                 .allocate = allocate,
                                                 .release = release,
                                                 .available = available,
                                                 .allocate_pinned = allocate_pinned,
                                                 .release_pinned = release_pinned,
                                                 .copy_in = copy_in,
                                                 .copy_in_pinned = copy_in_pinned,
                                                 .copy_out = copy_out,
                                                 .fill = fill,
                                                 .create_event = create_event,
                                                 .destroy_event = destroy_event,
                                                 .record = record,
                                                 .wait_for = wait_for,
                                                 .wait_event = wait_event,
                                                 .elapsed_ms = elapsed_ms,
                                                 .graphs = &kGraphs};

}  // namespace vsa::cuda
