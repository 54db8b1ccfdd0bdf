// Device in a build without CUDA. Never reached: BackendOptions refuses a backend that is absent.
#include "cli/common/device.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

[[noreturn]] void fail() {
  throw Failure(ExitCode::kUnsupported, "--backend cuda: not in this build");
}

}  // namespace

struct Device::Impl {};

Device::Device() { fail(); }
Device::~Device() = default;
ConstTensor Device::in(const ConstTensor& /*host*/) { fail(); }
Gate Device::in(const Gate& /*host*/) { fail(); }
ConstLut Device::in(const ConstLut& /*host*/) { fail(); }
Tensor Device::out(const Tensor& /*host*/) { fail(); }
Lut Device::out(const Lut& /*host*/) { fail(); }
Tensor Device::in_out(const Tensor& /*host*/) { fail(); }
Status Device::call(const std::function<Status(const Context&)>& /*stage*/) { fail(); }
void Device::wait() { fail(); }
void Device::fetch() { fail(); }
int64_t Device::workspace_bytes() const { fail(); }
void* Device::stream() const { fail(); }
std::string Device::pci_bus_id() const { fail(); }

struct DeviceClock::Impl {};

DeviceClock::DeviceClock() { fail(); }
DeviceClock::~DeviceClock() = default;
void DeviceClock::start(const Device& /*device*/) { fail(); }
double DeviceClock::stop_ms(const Device& /*device*/) { fail(); }

}  // namespace vsa::cli
