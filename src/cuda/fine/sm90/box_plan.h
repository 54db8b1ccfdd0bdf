// What the copy engine is told about a tensor: one 5-D view of the caller's memory for each shape
// of block. Host-only; plain numbers, so that tests can copy by them without a device.
//
// Axes: d elements of a row (64 a box), w, h, f tokens of the video, u heads. The last axis has the
// greatest common divisor of the strides of batch and head as its stride, so that head (b, h) is
// coordinate b * step.batch + h * step.head whatever the layout: BSHD, BHSD, a view of a fused QKV.
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

/// What messages call a tensor.
struct TensorName {
  std::string_view operation, argument;
};

/// @return Unsupported if coordinates or strides are too large for the copy engine, or negative
Result<TensorPlan> plan_boxes(const TensorName& name, const ConstTensor& tensor,
                              const PlanShape& plan);

/// Encodes the boxes. Asks the driver for the function; nothing links against it.
Status encode(const TensorName& name, const TensorPlan& plan, DType dtype, BoxMaps& maps);

}  // namespace vsa::cuda::sm90
