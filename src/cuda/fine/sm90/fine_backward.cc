// Turns the arguments of the fine backward into the parameters of its two kernels, one for dq and
// one for dk and dv, neither of which adds gradients by atomics. Host-only.
#include <fmt/format.h>

#include "src/cuda/fine/lut_t.h"
#include "src/cuda/fine/query_statistics.h"
#include "src/cuda/fine/sm90/box_plan.h"
#include "src/cuda/fine/sm90/family.h"
#include "src/cuda/fine/sm90/fine_backward_kernel.h"

namespace vsa::cuda::sm90 {
namespace {

struct NamedTensor {
  TensorName name;
  const ConstTensor& tensor;
};

Status set_side(const NamedTensor& first, const NamedTensor& second, const PlanTable& plan,
                BackwardSide& side) {
  const NamedTensor* const tensors[2] = {&first, &second};
  for (size_t i = 0; i < 2; ++i) {
    const auto& [name, tensor] = *tensors[i];
    const Result<TensorPlan> boxes = plan_boxes(name, tensor, plan.shape);
    VSA_TRY(boxes.status());
    side.step[i] = (*boxes).step;
    VSA_TRY(encode(name, *boxes, tensor.dtype, side.maps[i]));
  }
  side.blocks = plan.blocks;
  side.tile_len = plan.tile_len;
  side.plan = plan.shape;
  side.num_heads = static_cast<int32_t>(first.tensor.shape[1]);
  return {};
}

Status set_items(std::string_view operation, const BackwardSide& owned, int64_t batch,
                 int32_t* next_item, FineBackwardParams& params) {
  constexpr int64_t kMaxItems = int64_t{1} << 30;
  const int64_t items = product(batch, owned.num_heads, owned.plan.num_blocks());
  if (items >= kMaxItems) {
    return unsupported(fmt::format(
        "[{}] q, k: expected fewer than 2^30 blocks of 64 tokens in all heads on the cuda backend, "
        "got {}; split the batch",
        operation, items));
  }
  params.num_items = static_cast<int32_t>(items);
  params.next_item = next_item;
  return {};
}

class FineBackward : public FineBackwardRun {
 public:
  FineBackward(Carver& workspace, const PlanTables& plans, const LutDims& dims)
      : lut_t_(workspace, dims, plans.kv().shape.num_tiles),
        statistics_(workspace.take<QueryStatistics>(product(dims.batch, dims.num_heads),
                                                    plans.q().shape.num_blocks())),
        next_items_(workspace.take<int32_t>(2)) {}

  Status prepare(const CallSite& at, const ConstLut& lut) const override {
    return lut_t_.build(at, lut);
  }

  Status launch(const CallSite& at, const FineBackwardInput& in,
                const PlanTables& plans) const override {
    FineBackwardParams params{};
    VSA_TRY(set_side({{at.operation, "q"}, in.q}, {{at.operation, "dout"}, in.dout}, plans.q(),
                     params.q));
    VSA_TRY(
        set_side({{at.operation, "k"}, in.k}, {{at.operation, "v"}, in.v}, plans.kv(), params.kv));
    params.lut = in.lut;
    params.lut_t = lut_t_.view();
    params.group_size = params.q.num_heads / params.kv.num_heads;
    params.scale = in.scale;
    params.scale_log2 = in.scale * kLog2E;
    params.statistics = statistics_;
    params.dq = rows_of(in.dq);
    params.dk = rows_of(in.dk);
    params.dv = rows_of(in.dv);
    params.dq_pooled = in.dq_pooled;
    params.dk_pooled = in.dk_pooled;
    params.dv_pooled = in.dv_pooled;
    const KernelLaunch how{.at = at, .dtype = in.q.dtype, .head_dim = in.q.shape[3]};
    VSA_TRY(set_items(at.operation, params.q, in.q.shape[0], next_items_, params));
    VSA_TRY(check(at.operation, cudaMemsetAsync(next_items_, 0, 2 * sizeof(int32_t), at.stream)));
    VSA_TRY(run_query_statistics(at, {.lse = rows_of(in.lse),
                                      .delta = in.delta,
                                      .seq_len = in.q.shape[2],
                                      .plan = plans.q(),
                                      .num_heads = params.q.num_heads,
                                      .num_items = params.num_items,
                                      .to = statistics_}));
    VSA_TRY(run_fine_dq(params, how));
    VSA_TRY(set_items(at.operation, params.kv, in.q.shape[0], next_items_ + 1, params));
    return run_fine_dkv(params, how);
  }

 private:
  TransposedLut lut_t_;
  QueryStatistics* statistics_;
  int32_t* next_items_;  // the queues of the two kernels
};

}  // namespace

std::unique_ptr<FineBackwardRun> make_fine_backward(Carver& workspace, const PlanTables& plans,
                                                    const LutDims& dims) {
  return std::make_unique<FineBackward>(workspace, plans, dims);
}

}  // namespace vsa::cuda::sm90
