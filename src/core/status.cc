// Names of the public enums, as they appear in messages. Host-only.
#include "vsa/status.h"

#include "vsa/backend.h"
#include "vsa/tensor.h"

namespace vsa {

std::string_view name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "Ok";
    case StatusCode::kInvalidArgument:
      return "InvalidArgument";
    case StatusCode::kUnsupported:
      return "Unsupported";
    case StatusCode::kOutOfMemory:
      return "OutOfMemory";
    case StatusCode::kDeviceError:
      return "DeviceError";
    case StatusCode::kIoError:
      return "IoError";
    case StatusCode::kCancelled:
      return "Cancelled";
    case StatusCode::kInternal:
      return "Internal";
  }
  return "Unknown";
}

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF64:
      return "f64";
  }
  return "unknown";
}

std::string_view name(BackendId id) {
  switch (id) {
    case BackendId::kReference:
      return "reference";
    case BackendId::kCpu:
      return "cpu";
    case BackendId::kCuda:
      return "cuda";
    case BackendId::kHip:
      return "hip";
  }
  return "unknown";
}

}  // namespace vsa
