// From arguments to the parameters of the fine kernel. Host-only.
#include "src/cuda/fine.h"

#include <cmath>
#include <numbers>

#include "src/cuda/sm90/box_plan.h"
#include "src/cuda/sm90/fine_kernel.h"

namespace vsa::cuda {
namespace {

Status set_maps(std::string_view argument, const ConstTensor& tensor, const PlanShape& plan,
                sm90::BoxMaps& maps, sm90::HeadStep& step) {
  const Result<sm90::TensorPlan> boxes = sm90::plan_boxes(argument, tensor, plan);
  VSA_TRY(boxes.status());
  step = (*boxes).step;
  return sm90::encode(argument, *boxes, tensor.dtype, maps);
}

/// The softmax scale as the kernel wants it: positive, as the maximum of raw scores must be that of
/// scaled ones, and so small instead of 0 that -inf * scale stays -inf.
void set_scale(float scale, sm90::FineParams& params) {
  constexpr float kSmall = 1e-30F;
  params.scale_log2 = std::max(std::abs(scale) * std::numbers::log2e_v<float>, kSmall);
  params.q_sign = scale < 0.0F ? 0x80008000U : 0U;
}

}  // namespace

Status run_fine_stage(const FineArgs& args, const PlanTables& plans, const Schedule& schedule,
                      float gate_fine, const CoarseBranch& coarse, int num_sms,
                      cudaStream_t stream) {
  sm90::FineParams params{};
  VSA_TRY(set_maps("q", args.q, plans.q().shape, params.q, params.q_step));
  VSA_TRY(set_maps("k", args.k, plans.kv().shape, params.k, params.k_step));
  VSA_TRY(set_maps("v", args.v, plans.kv().shape, params.v, params.v_step));
  params.q_blocks = plans.q().blocks;
  params.kv_blocks = plans.kv().blocks;
  params.q_plan = plans.q().shape;
  params.heads = schedule.heads();
  params.entries = schedule.entries();
  params.entry_pitch = schedule.entry_pitch();
  params.num_pairs = static_cast<int32_t>(schedule.num_pairs());
  params.num_heads = static_cast<int32_t>(args.q.shape[1]);
  params.group_size = static_cast<int32_t>(args.q.shape[1] / args.k.shape[1]);
  params.num_items = static_cast<int32_t>(schedule.num_items());
  set_scale(*args.scale, params);
  params.out = rows_of(args.out);
  params.lse = rows_of(args.lse);
  params.coarse_out = coarse.out;
  params.gate = coarse.gate.rows;
  params.gate_fine = gate_fine;
  params.gate_coarse = coarse.gate.constant;
  return sm90::run_fine(params, args.q.dtype, args.q.shape[3], num_sms, stream);
}

}  // namespace vsa::cuda
