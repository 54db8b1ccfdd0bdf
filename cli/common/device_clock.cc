// DeviceClock: events of the device, behind a fill that is larger than its L2 cache. Host-only.
#include "cli/common/device.h"
#include "cli/common/failure.h"
#include "vsa/device_memory.h"

namespace vsa::cli {

struct DeviceClock::Impl {
  // Several times the L2 of any GPU (50 to 126 MB), and 0.1 ms or more at 5 TB/s or less.
  static constexpr int64_t kFlushBytes = int64_t{512} << 20;

  explicit Impl(BackendId backend)
      : memory(take(DeviceMemory::of(backend))),
        flush(take(memory.allocate(kFlushBytes))),
        begin(take(memory.make_event())),
        end(take(memory.make_event())) {}

  DeviceMemory memory;
  void* flush;
  DeviceEvent begin, end;
};

DeviceClock::DeviceClock(BackendId backend) : impl_(std::make_unique<Impl>(backend)) {}

DeviceClock::~DeviceClock() = default;

void DeviceClock::start(const Device& device) {
  check(device.stream().fill(impl_->flush, 0, Impl::kFlushBytes));
  check(device.stream().record(impl_->begin));
}

double DeviceClock::stop_ms(const Device& device) {
  check(device.stream().record(impl_->end));
  return take(impl_->end.ms_since(impl_->begin));
}

}  // namespace vsa::cli
