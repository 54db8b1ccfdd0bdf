// Turns the arguments of the fine stage into the parameters of the forward fine kernel. Host-only.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/cuda/fine/sm90/box_plan.h"
#include "src/cuda/fine/sm90/family.h"
#include "src/cuda/fine/sm90/fine_kernel.h"
#include "src/cuda/plan/schedule_build.h"

namespace vsa::cuda::sm90 {
namespace {

Status set_maps(const TensorName& name, const ConstTensor& tensor, const PlanShape& plan,
                BoxMaps& maps, HeadStep& step) {
  const Result<TensorPlan> boxes = plan_boxes(name, tensor, plan);
  VSA_TRY(boxes.status());
  step = (*boxes).step;
  return encode(name, *boxes, tensor.dtype, maps);
}

/// Sets the softmax scale of the kernel. It must be positive, because the kernel takes the maximum
/// of scores before it scales them; of a negative scale the kernel applies the sign to q. A scale
/// of 0 becomes a tiny one, so that -inf * scale stays -inf.
void set_scale(float scale, FineParams& params) {
  constexpr float kSmall = 1e-30F;
  params.scale_log2 = std::max(std::abs(scale) * std::numbers::log2e_v<float>, kSmall);
  params.q_sign = scale < 0.0F ? 0x80008000U : 0U;
}

class Fine : public FineRun {
 public:
  Fine(Carver& workspace, const PlanTables& plans, const LutDims& dims, int64_t head_dim)
      : schedule_(workspace, plans, dims,
                  consumers_share_copies(head_dim) ? PairBy::kSharedTiles : PairBy::kPosition) {}

  Status prepare(const CallSite& at, const PlanTables& plans, const ConstLut& lut) const override {
    return schedule_.build(at, plans, lut);
  }

  Status launch(const CallSite& at, const FineArgs& args, const PlanTables& plans,
                const FineCombine& combine) const override {
    FineParams params{};
    VSA_TRY(set_maps({at.operation, "q"}, args.q, plans.q().shape, params.q, params.q_step));
    VSA_TRY(set_maps({at.operation, "k"}, args.k, plans.kv().shape, params.k, params.k_step));
    VSA_TRY(set_maps({at.operation, "v"}, args.v, plans.kv().shape, params.v, params.v_step));
    params.q_blocks = plans.q().blocks;
    params.kv_blocks = plans.kv().blocks;
    params.q_plan = plans.q().shape;
    params.heads = schedule_.heads();
    params.entries = schedule_.entries();
    params.entry_pitch = schedule_.entry_pitch();
    params.queue_head = schedule_.queue_head();
    params.num_pairs = narrow(schedule_.num_pairs());
    params.num_heads = narrow(args.q.shape[1]);
    params.group_size = narrow(args.q.shape[1] / args.k.shape[1]);
    params.num_items = narrow(schedule_.num_items());
    set_scale(*args.scale, params);
    params.last_key_score =
        std::log2(1.0F + static_cast<float>(args.last_key_repeats)) / params.scale_log2;
    params.out = rows_of(args.out);
    params.lse = rows_of(args.lse);
    params.coarse_out = combine.coarse_out;
    params.gate = combine.gate_coarse.rows;
    params.gate_fine = combine.gate_fine;
    params.gate_coarse = combine.gate_coarse.constant;
    return run_fine(params, {.at = at, .dtype = args.q.dtype, .head_dim = args.q.shape[3]});
  }

 private:
  Schedule schedule_;
};

}  // namespace

std::unique_ptr<FineRun> make_fine(Carver& workspace, const PlanTables& plans, const LutDims& dims,
                                   int64_t head_dim) {
  return std::make_unique<Fine>(workspace, plans, dims, head_dim);
}

}  // namespace vsa::cuda::sm90
