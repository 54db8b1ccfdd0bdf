// cuDNN's backend interface as the conv3d stage uses it: its functions, loaded at run time, and its
// descriptors. Host-only; for sources that see its header.
#pragma once

#include <cudnn.h>

#include <string_view>
#include <utility>

#include "src/cuda/support/launch.h"
#include "vsa/status.h"

namespace vsa::cuda {

// The functions that are called, under their own names.
#define VSA_FOR_EACH_CUDNN_FUNCTION(X) \
  X(cudnnBackendCreateDescriptor)      \
  X(cudnnBackendDestroyDescriptor)     \
  X(cudnnBackendExecute)               \
  X(cudnnBackendFinalize)              \
  X(cudnnBackendGetAttribute)          \
  X(cudnnBackendSetAttribute)          \
  X(cudnnCreate)                       \
  X(cudnnGetErrorString)               \
  X(cudnnGetLastErrorString)           \
  X(cudnnSetStream)

struct CudnnFunctions {
#define VSA_MEMBER(name) decltype(&::name) name = nullptr;
  VSA_FOR_EACH_CUDNN_FUNCTION(VSA_MEMBER)
#undef VSA_MEMBER
};

/// Loaded by the first call. @return Unsupported, with the reason
const Result<CudnnFunctions>& cudnn();

/// Ok, or DeviceError with the call that failed and what cuDNN says of it. Only once cudnn() is ok.
Status check_cudnn(std::string_view operation, std::string_view call, cudnnStatus_t status);

/// What cudnnBackendCreateDescriptor gives, destroyed with its scope.
class Descriptor {
 public:
  static Result<Descriptor> make(std::string_view operation, cudnnBackendDescriptorType_t type);
  Descriptor() = default;
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }

  cudnnBackendDescriptor_t raw() const { return raw_; }
  Status set(std::string_view operation, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, int64_t count, const void* values);
  Status set(std::string_view operation, cudnnBackendAttributeName_t name,
             const Descriptor& other) {
    return set(operation, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_);
  }
  Status set(std::string_view operation, cudnnBackendAttributeName_t name, int64_t value) {
    return set(operation, name, CUDNN_TYPE_INT64, 1, &value);
  }
  Status finalize(std::string_view operation);

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

}  // namespace vsa::cuda
