// From arguments to the parameters of the kernels of the fine backward. Host-only.
#include "src/cuda/fine_backward.h"

#include <fmt/format.h>

#include "src/cuda/launch.h"
#include "src/cuda/sm90/box_plan.h"
#include "src/cuda/sm90/fine_backward_kernel.h"

namespace vsa::cuda {
namespace {

struct NamedTensor {
  sm90::TensorName name;
  const ConstTensor& tensor;
};

Status set_side(const NamedTensor& first, const NamedTensor& second, const PlanTable& plan,
                sm90::BackwardSide& side) {
  const NamedTensor* const tensors[2] = {&first, &second};
  for (size_t i = 0; i < 2; ++i) {
    const auto& [name, tensor] = *tensors[i];
    const Result<sm90::TensorPlan> boxes = sm90::plan_boxes(name, tensor, plan.shape);
    VSA_TRY(boxes.status());
    side.step[i] = (*boxes).step;
    VSA_TRY(sm90::encode(name, *boxes, tensor.dtype, side.maps[i]));
  }
  side.blocks = plan.blocks;
  side.tile_len = plan.tile_len;
  side.plan = plan.shape;
  side.num_heads = static_cast<int32_t>(first.tensor.shape[1]);
  return {};
}

Status set_items(std::string_view operation, const sm90::BackwardSide& own, int64_t batch,
                 int32_t* next_item, sm90::FineBackwardParams& params) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t items = product(batch, own.num_heads, own.plan.num_blocks());
  if (items >= kMost) {
    return unsupported(fmt::format(
        "[{}] q, k: expected fewer than 2^30 blocks of 64 tokens in all heads on the cuda backend, "
        "got {}; split the batch",
        operation, items));
  }
  params.num_items = static_cast<int32_t>(items);
  params.next_item = next_item;
  return {};
}

}  // namespace

Status run_fine_backward(std::string_view operation, const FineBackwardInput& in,
                         const PlanTables& plans, int num_sms, cudaStream_t stream) {
  sm90::FineBackwardParams params{};
  VSA_TRY(set_side({{operation, "q"}, in.q}, {{operation, "dout"}, in.dout}, plans.q(), params.q));
  VSA_TRY(set_side({{operation, "k"}, in.k}, {{operation, "v"}, in.v}, plans.kv(), params.kv));
  params.lut = in.lut;
  params.lut_t = in.lut_t;
  params.group_size = params.q.num_heads / params.kv.num_heads;
  params.scale = in.scale;
  params.scale_log2 = in.scale * kLog2E;
  params.statistics = in.scratch.statistics;
  params.dq = rows_of(in.dq);
  params.dk = rows_of(in.dk);
  params.dv = rows_of(in.dv);
  params.dq_pooled = in.dq_pooled;
  params.dk_pooled = in.dk_pooled;
  params.dv_pooled = in.dv_pooled;
  const sm90::KernelLaunch launch{.operation = operation,
                                  .dtype = in.q.dtype,
                                  .head_dim = in.q.shape[3],
                                  .num_sms = num_sms,
                                  .stream = stream};
  int32_t* const next_items = in.scratch.next_items;
  VSA_TRY(set_items(operation, params.q, in.q.shape[0], next_items, params));
  VSA_TRY(check(operation, cudaMemsetAsync(next_items, 0, 2 * sizeof(int32_t), stream)));
  VSA_TRY(run_query_statistics(operation,
                               {.lse = rows_of(in.lse),
                                .delta = in.delta,
                                .seq_len = in.q.shape[2],
                                .plan = plans.q(),
                                .num_heads = params.q.num_heads,
                                .num_items = params.num_items,
                                .to = in.scratch.statistics},
                               stream));
  VSA_TRY(sm90::run_fine_dq(params, launch));
  VSA_TRY(set_items(operation, params.kv, in.q.shape[0], next_items + 1, params));
  return sm90::run_fine_dkv(params, launch);
}

}  // namespace vsa::cuda
