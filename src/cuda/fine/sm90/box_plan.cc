// Computes the contents of the TMA tensor maps of a tensor (box_plan.h). Host-only.
#include "src/cuda/fine/sm90/box_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace vsa::cuda::sm90 {
namespace {

constexpr int64_t kElementBytes = 2;

/// The last axis of the maps, over the heads of all batch items.
struct HeadAxis {
  int64_t stride = 0;  // elements
  int64_t size = 1;
  int64_t batch = 0, head = 0;  // steps of the coordinate from one batch item or head to the next
};

HeadAxis head_axis(const ConstTensor& t) {
  const int64_t batch = t.shape[0] > 1 ? std::abs(t.stride[0]) : 0;
  const int64_t head = t.shape[1] > 1 ? std::abs(t.stride[1]) : 0;
  HeadAxis axis;
  axis.stride = std::gcd(batch, head);
  if (axis.stride == 0) {  // one head, or all heads are the same memory
    axis.stride = kSlabElements;
    return axis;
  }
  axis.batch = batch / axis.stride;
  axis.head = head / axis.stride;
  axis.size = 1 + (t.shape[0] - 1) * axis.batch + (t.shape[1] - 1) * axis.head;
  return axis;
}

bool has_negative_stride(const ConstTensor& t) {
  for (size_t i = 0; i < 3; ++i) {
    if (t.shape[i] > 1 && t.stride[i] < 0) return true;
  }
  return false;
}

}  // namespace

Result<TensorPlan> plan_boxes(const TensorName& name, const ConstTensor& t, const PlanShape& plan) {
  constexpr int64_t kMaxStrideBytes = (int64_t{1} << 40) - 16;
  constexpr int64_t kMaxSize = INT32_MAX;
  const HeadAxis heads = head_axis(t);
  const int64_t seq = t.shape[2] > 1 ? t.stride[2] : kSlabElements;
  const int64_t plane = int64_t{plan.grid[1]} * plan.grid[2];
  if (has_negative_stride(t) || seq == 0 || heads.size > kMaxSize ||
      heads.stride > kMaxStrideBytes / kElementBytes ||
      seq > kMaxStrideBytes / kElementBytes / std::max<int64_t>(plane, 1)) {
    return unsupported(fmt::format(
        "[{}] {}: expected positive strides below 2^40 bytes on the cuda backend, got "
        "[{},{},{},{}]; copy it",
        name.operation, name.argument, t.stride[0], t.stride[1], t.stride[2], t.stride[3]));
  }
  const auto bytes = [](int64_t elements) {
    return static_cast<uint64_t>(elements * kElementBytes);
  };
  TensorPlan all;
  all.step = {static_cast<int32_t>(heads.batch), static_cast<int32_t>(heads.head)};
  const auto head_dim = static_cast<uint64_t>(t.shape[3]);
  const auto num_heads = static_cast<uint64_t>(heads.size);

  const auto* base = static_cast<const uint8_t*>(t.data);
  for (uint32_t kind = 0; kind < Block::kRun && plan.num_tiles > plan.num_runs; ++kind) {
    BoxPlan& box = all.boxes[kind];
    box.box = {kSlabElements, 0, 0, 0, 1};
    bool exists = true;
    for (size_t axis = 0; axis < 3; ++axis) {  // w, h, f
      const int32_t edge = plan.block_edge[2 - axis];
      const int32_t rest = plan.grid[2 - axis] % edge;
      const bool is_cut = (kind >> axis & 1U) != 0;
      exists = exists && (is_cut ? rest > 0 : plan.grid[2 - axis] >= edge);
      box.box[axis + 1] = static_cast<uint32_t>(is_cut ? rest : edge);
    }
    if (!exists) continue;
    box.base = base + bytes(plan.base * seq);
    box.size = {head_dim, static_cast<uint64_t>(plan.grid[2]), static_cast<uint64_t>(plan.grid[1]),
                static_cast<uint64_t>(plan.grid[0]), num_heads};
    box.stride_bytes = {bytes(seq), bytes(seq * plan.grid[2]), bytes(seq * plane),
                        bytes(heads.stride)};
  }
  for (size_t i = kRunBox; i < kNumBoxes && plan.num_runs > 0; ++i) {
    BoxPlan& box = all.boxes[i];
    box.base = t.data;
    box.size = {head_dim, static_cast<uint64_t>(t.shape[2]), 1, 1, num_heads};
    box.stride_bytes = {bytes(seq), bytes(seq), bytes(seq), bytes(heads.stride)};
    box.box = {kSlabElements, 1U << (i - kRunBox), 1, 1, 1};
  }
  return all;
}

}  // namespace vsa::cuda::sm90
