// The fake device's memory, streams and events, for DeviceMemory. It has no graphs: calls that ran
// in host memory cannot be run again.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/device_backend/device.h"

namespace vsa::test {
namespace {

/// The device, with a count of the number that is current.
FakeDevice& used() {
  FakeDevice* device = FakeDevice::current();
  ++device->num_functions[current_fake_device()];
  return *device;
}
FakeStream& stream_of(FakeDevice& device, void* stream) { return *device.find_stream(stream); }
FakeEvent& event_of(void* event) { return *static_cast<FakeEvent*>(event); }

Status count(int* num_devices) {
  *num_devices = 2;
  return {};
}
Status current(int* device) {
  *device = current_fake_device();
  return {};
}
Status make_current(int device) {
  current_fake_device() = device;
  return {};
}
Status system_name(int device, std::string* name) {
  *name = "fake:" + std::to_string(device);
  return {};
}

Status create_stream(void** stream) {
  *stream = used().add_stream();
  return {};
}
void destroy_stream(void* stream) { used().remove_stream(stream); }
Status wait(void* stream) {
  FakeDevice& device = used();
  ++device.num_waits;
  stream_of(device, stream).run([] {});
  return {};
}

Status allocate(int64_t size_bytes, void** data) {
  *data = used().allocate(static_cast<size_t>(size_bytes));
  return {};
}
void release(void* /*data*/) { static_cast<void>(used()); }
Status available(int64_t* size_bytes) {
  *size_bytes = used().available_bytes;
  return {};
}
Status allocate_pinned(int64_t size_bytes, void** data) {
  static_cast<void>(used());
  *data = std::malloc(static_cast<size_t>(size_bytes));
  return {};
}
void release_pinned(void* data) {
  static_cast<void>(used());
  std::free(data);
}

void copy(FakeDevice& device, void* to, const void* from, int64_t size_bytes) {
  const FakeDevice::Opened opened(device);
  std::memcpy(to, from, static_cast<size_t>(size_bytes));
}
Status copy_in(void* stream, void* to, const void* from, int64_t size_bytes) {
  FakeDevice& device = used();
  device.count_copy(stream, to, from);
  stream_of(device, stream).run([&] { copy(device, to, from, size_bytes); });
  return {};
}
/// The copy is made once somebody waits for it: what was not waited for is not there.
Status copy_in_pinned(void* stream, void* to, const void* from, int64_t size_bytes) {
  FakeDevice& device = used();
  device.count_copy(stream, to, from);
  stream_of(device, stream).enqueue([=, &device] { copy(device, to, from, size_bytes); });
  return {};
}
Status copy_out(void* stream, void* to, const void* from, int64_t size_bytes) {
  FakeDevice& device = used();
  device.count_copy(stream, from, to);
  stream_of(device, stream).run([&] { copy(device, to, from, size_bytes); });
  return {};
}
Status fill(void* stream, void* to, uint8_t value, int64_t size_bytes) {
  FakeDevice& device = used();
  ++device.num_fills;
  device.now_ms += FakeDevice::kFillMs;
  stream_of(device, stream).run([&] {
    const FakeDevice::Opened opened(device);
    // Whole pages of zeros are given back, because what empties a cache is large.
    constexpr int64_t kPage = 65536;
    if (value == 0 && reinterpret_cast<uintptr_t>(to) % kPage == 0 && size_bytes % kPage == 0) {
      madvise(to, static_cast<size_t>(size_bytes), MADV_DONTNEED);
    } else {
      std::memset(to, value, static_cast<size_t>(size_bytes));
    }
  });
  return {};
}

Status create_event(void** event) {
  static_cast<void>(used());
  *event = new FakeEvent;
  return {};
}
void destroy_event(void* event) {
  static_cast<void>(used());
  delete &event_of(event);
}
Status record(void* stream, void* event) {
  FakeDevice& device = used();
  FakeStream& on = stream_of(device, stream);
  event_of(event) = {.stream = &on, .number = on.last_number(), .at_ms = device.now_ms};
  return {};
}
Status wait_event(void* event) {
  static_cast<void>(used());
  const FakeEvent& marked = event_of(event);
  if (marked.stream != nullptr) marked.stream->run_up_to(marked.number);
  return {};
}
Status wait_for(void* stream, void* event) {
  FakeDevice& device = used();
  const FakeEvent marked = event_of(event);
  if (marked.stream == nullptr) return {};
  stream_of(device, stream).enqueue([=] { marked.stream->run_up_to(marked.number); });
  return {};
}
Status elapsed_ms(void* start, void* end, double* ms) {
  static_cast<void>(used());
  if (event_of(start).stream == nullptr || event_of(end).stream == nullptr) {
    return {StatusCode::kDeviceError, "[device_memory] event: expected one that was recorded"};
  }
  *ms = event_of(end).at_ms - event_of(start).at_ms;
  return {};
}

}  // namespace

int& current_fake_device() {
  thread_local int current_device = 0;
  return current_device;
}

constinit const DeviceFunctions kFakeDeviceFunctions{.count = count,
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
                                                     .elapsed_ms = elapsed_ms};

}  // namespace vsa::test
