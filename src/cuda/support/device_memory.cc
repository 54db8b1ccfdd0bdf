// Memory and streams for programs that have no CUDA runtime of their own. Host-only.
#include <fmt/format.h>

#include <algorithm>

#include "src/cuda/support/device.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda {
namespace {

constexpr std::string_view kOperation = "device_memory";

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

Status create_stream(void** stream) {
  cudaStream_t created = nullptr;
  VSA_TRY(check(kOperation, cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking)));
  *stream = created;
  return {};
}
void destroy_stream(void* stream) { cudaStreamDestroy(stream_of(stream)); }

Status allocate(int64_t size_bytes, void** data) {
  return check(kOperation, cudaMalloc(data, static_cast<size_t>(std::max<int64_t>(size_bytes, 1))));
}
void release(void* data) { cudaFree(data); }
Status available(int64_t* size_bytes) {
  size_t free = 0;
  size_t total = 0;
  VSA_TRY(check(kOperation, cudaMemGetInfo(&free, &total)));
  *size_bytes = static_cast<int64_t>(free);
  return {};
}

/// Copies on the stream of the calls, because a copy on the default stream may still be under way
/// when a call on another stream begins. `from` is pageable memory, so it has been read when this
/// function returns.
Status copy_in(void* stream, void* to, const void* from, int64_t size_bytes) {
  return check(kOperation, cudaMemcpyAsync(to, from, static_cast<size_t>(size_bytes),
                                           cudaMemcpyHostToDevice, stream_of(stream)));
}
Status wait(void* stream) { return check(kOperation, cudaStreamSynchronize(stream_of(stream))); }
Status copy_out(void* stream, void* to, const void* from, int64_t size_bytes) {
  VSA_TRY(wait(stream));
  return check(kOperation,
               cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost));
}

}  // namespace

constinit const DeviceFunctions kDeviceFunctions{.create_stream = create_stream,
                                                 .destroy_stream = destroy_stream,
                                                 .allocate = allocate,
                                                 .release = release,
                                                 .available = available,
                                                 .copy_in = copy_in,
                                                 .copy_out = copy_out,
                                                 .wait = wait};

}  // namespace vsa::cuda
