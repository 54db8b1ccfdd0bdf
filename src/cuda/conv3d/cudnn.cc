// cuDNN's backend interface as the conv3d stage uses it. Host-only.
#ifdef VSA_HAS_CUDNN
#include "src/cuda/conv3d/cudnn.h"

#include <fmt/format.h>

#include <array>

#include "src/cuda/support/libraries.h"
#include "src/cuda/traits.h"

namespace vsa::cuda {
namespace {

Result<CudnnFunctions> load() {
  const Result<const SharedLibrary*> library_of = library(kCudnnName);
  VSA_TRY(library_of.status());
  CudnnFunctions f;
#define VSA_LOAD(name) VSA_TRY((*library_of)->function(#name, &f.name));
  VSA_FOR_EACH_CUDNN_FUNCTION(VSA_LOAD)
#undef VSA_LOAD
  return f;
}

}  // namespace

const Result<CudnnFunctions>& cudnn() {
  static const Result<CudnnFunctions> loaded = load();
  return loaded;
}

Status check_cudnn(std::string_view operation, std::string_view call, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  std::array<char, 512> why{};
  cudnn()->cudnnGetLastErrorString(why.data(), why.size());
  return Status(StatusCode::kDeviceError,
                fmt::format("[{}] cuDNN: {}: {} {}", operation, call,
                            cudnn()->cudnnGetErrorString(status), why.data()));
}

Result<Descriptor> Descriptor::make(std::string_view operation, cudnnBackendDescriptorType_t type) {
  Descriptor descriptor;
  VSA_TRY(check_cudnn(operation,
                      fmt::format("cudnnBackendCreateDescriptor({})", static_cast<int>(type)),
                      cudnn()->cudnnBackendCreateDescriptor(type, &descriptor.raw_)));
  return descriptor;
}

Descriptor::~Descriptor() {
  if (raw_ != nullptr) cudnn()->cudnnBackendDestroyDescriptor(raw_);
}

Status Descriptor::set(std::string_view operation, cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return check_cudnn(operation, fmt::format("cudnnBackendSetAttribute({})", static_cast<int>(name)),
                     cudnn()->cudnnBackendSetAttribute(raw_, name, type, count, values));
}

Status Descriptor::finalize(std::string_view operation) {
  return check_cudnn(operation, "cudnnBackendFinalize", cudnn()->cudnnBackendFinalize(raw_));
}

}  // namespace vsa::cuda
#endif  // VSA_HAS_CUDNN
