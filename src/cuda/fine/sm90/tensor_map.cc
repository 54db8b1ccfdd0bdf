// Encodes box plans as TMA tensor maps by a function of the driver. Host-only.
#include <cuda.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "src/cuda/fine/sm90/box_plan.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda::sm90 {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

/// Finds cuTensorMapEncodeTiled in the installed driver. No part of vsa links against libcuda, so
/// that it also starts on machines without a driver.
Status find_encoder(std::string_view operation, EncodeTiled& encoder) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kFirstVersion = 12000;
  VSA_TRY(
      check(operation, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                        kFirstVersion, cudaEnableDefault, &found)));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    return unsupported(
        fmt::format("[{}] driver: expected one with cuTensorMapEncodeTiled (CUDA 12.0), got an "
                    "older one; update the driver",
                    operation));
  }
  encoder = reinterpret_cast<EncodeTiled>(function);
  return {};
}

}  // namespace

Status encode(const TensorName& name, const TensorPlan& plan, DType dtype, BoxMaps& maps) {
  EncodeTiled encode_tiled = nullptr;
  VSA_TRY(find_encoder(name.operation, encode_tiled));
  const auto type =
      dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  constexpr cuuint32_t kElementStrides[5] = {1, 1, 1, 1, 1};
  for (size_t i = 0; i < plan.boxes.size(); ++i) {
    const BoxPlan& box = plan.boxes[i];
    if (box.base == nullptr) continue;
    const CUresult result =
        encode_tiled(&maps.box[i], type, 5, const_cast<void*>(box.base), box.size.data(),
                     box.stride_bytes.data(), box.box.data(), kElementStrides,
                     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
      return unsupported(fmt::format(
          "[{}] {}: expected a layout that the copy engine can read, got error {} for sizes "
          "[{},{},{},{},{}], strides [{},{},{},{}] bytes",
          name.operation, name.argument, static_cast<int>(result), box.size[0], box.size[1],
          box.size[2], box.size[3], box.size[4], box.stride_bytes[0], box.stride_bytes[1],
          box.stride_bytes[2], box.stride_bytes[3]));
    }
  }
  return {};
}

}  // namespace vsa::cuda::sm90
