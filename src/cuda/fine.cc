// From arguments to the parameters of the fine kernel. Host-only.
#include "src/cuda/fine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/cuda/sm90/box_plan.h"
#include "src/cuda/sm90/fine_kernel.h"

namespace vsa::cuda {
namespace {

Status set_maps(const sm90::TensorName& name, const ConstTensor& tensor, const PlanShape& plan,
                sm90::BoxMaps& maps, sm90::HeadStep& step) {
  const Result<sm90::TensorPlan> boxes = sm90::plan_boxes(name, tensor, plan);
  VSA_TRY(boxes.status());
  step = (*boxes).step;
  return sm90::encode(name, *boxes, tensor.dtype, maps);
}

/// The softmax scale as the kernel wants it: positive, as the maximum of raw scores must be that of
/// scaled ones, and so small instead of 0 that -inf * scale stays -inf.
void set_scale(float scale, sm90::FineParams& params) {
  constexpr float kSmall = 1e-30F;
  params.scale_log2 = std::max(std::abs(scale) * std::numbers::log2e_v<float>, kSmall);
  params.q_sign = scale < 0.0F ? 0x80008000U : 0U;
}

}  // namespace

Status run_fine_stage(const FineLaunch& launch, const FineArgs& args, const PlanTables& plans,
                      const Schedule& schedule, const FineCombine& combine) {
  sm90::FineParams params{};
  VSA_TRY(set_maps({launch.operation, "q"}, args.q, plans.q().shape, params.q, params.q_step));
  VSA_TRY(set_maps({launch.operation, "k"}, args.k, plans.kv().shape, params.k, params.k_step));
  VSA_TRY(set_maps({launch.operation, "v"}, args.v, plans.kv().shape, params.v, params.v_step));
  params.q_blocks = plans.q().blocks;
  params.kv_blocks = plans.kv().blocks;
  params.q_plan = plans.q().shape;
  params.heads = schedule.heads();
  params.entries = schedule.entries();
  params.entry_pitch = schedule.entry_pitch();
  params.num_taken = schedule.num_taken();
  params.num_pairs = static_cast<int32_t>(schedule.num_pairs());
  params.num_heads = static_cast<int32_t>(args.q.shape[1]);
  params.group_size = static_cast<int32_t>(args.q.shape[1] / args.k.shape[1]);
  params.num_items = static_cast<int32_t>(schedule.num_items());
  set_scale(*args.scale, params);
  params.out = rows_of(args.out);
  params.lse = rows_of(args.lse);
  params.coarse_out = combine.coarse_out;
  params.gate = combine.gate_coarse.rows;
  params.gate_fine = combine.gate_fine;
  params.gate_coarse = combine.gate_coarse.constant;
  return sm90::run_fine(params, {.operation = launch.operation,
                                 .dtype = args.q.dtype,
                                 .head_dim = args.q.shape[3],
                                 .num_sms = launch.num_sms,
                                 .stream = launch.stream});
}

}  // namespace vsa::cuda
