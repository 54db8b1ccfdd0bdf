// DeviceClock in a build without CUDA. It is never called, because no backend has a device.
#include "cli/common/device.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

[[noreturn]] void fail() {
  throw Failure(ExitCode::kUnsupported, "--backend cuda: not in this build");
}

}  // namespace

std::string Device::pci_bus_id() const { fail(); }

struct DeviceClock::Impl {};

DeviceClock::DeviceClock() { fail(); }
DeviceClock::~DeviceClock() = default;
void DeviceClock::start(const Device& /*device*/) { fail(); }
double DeviceClock::stop_ms(const Device& /*device*/) { fail(); }

}  // namespace vsa::cli
