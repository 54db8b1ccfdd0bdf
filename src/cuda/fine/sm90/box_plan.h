// The contents of the TMA tensor maps of a tensor: one 5-D view of the caller's memory for each
// shape of block. Host-only; plain numbers, so that tests can copy by them without a device.
//
// Axes: d the elements of a row (64 in a box); w, h, f the columns, rows and frames of the video; u
// the heads of all batch items. The stride of u is the greatest common divisor of the strides of
// batch and head, so that head (b, h) has the coordinate b * step.batch + h * step.head in any
// layout: BSHD, BHSD, a view of a fused QKV.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/plan/block.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa::cuda::sm90 {

struct BoxPlan {
  const void* base = nullptr;              ///< null: no block has this shape
  std::array<uint64_t, 5> size{};          ///< d, w, h, f, u
  std::array<uint64_t, 4> stride_bytes{};  ///< of w, h, f, u
  std::array<uint32_t, 5> box{};
};

struct TensorPlan {
  std::array<BoxPlan, kNumBoxes> boxes;
  HeadStep step;
};

/// The names of the operation and of the tensor in error messages.
struct TensorName {
  std::string_view operation, argument;
};

/// @return Unsupported if coordinates or strides are too large for TMA, or negative
Result<TensorPlan> plan_boxes(const TensorName& name, const ConstTensor& tensor,
                              const PlanShape& plan);

/// Encodes the tensor maps by a function of the driver, which is looked up at run time: nothing
/// links against the driver.
Status encode(const TensorName& name, const TensorPlan& plan, DType dtype, BoxMaps& maps);

}  // namespace vsa::cuda::sm90
