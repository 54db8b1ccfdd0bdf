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
Status Device::call(const std::function<Status(const Context&)>& /*stage*/) { fail(); }
void Device::wait() { fail(); }
void Device::fetch() { fail(); }

}  // namespace vsa::cli
