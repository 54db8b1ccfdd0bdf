// The stage coarse: from its arguments to the launch of its kernels. Host-only.
#include "src/cuda/coarse/coarse.h"

#include "src/cuda/plan/plan.h"
#include "src/cuda/stages.h"

namespace vsa::cuda {

Tensor take_coarse_scores(Carver& workspace, const Dims& dims) {
  Dims padded = dims;
  padded.head_dim = coarse_pitch(dims.head_dim);
  Tensor scores = workspace.take_f32(padded);
  scores.shape[3] = dims.head_dim;
  return scores;
}

float2* take_coarse_stats(Carver& workspace, const Dims& dims) {
  return workspace.take<float2>(dims.batch * dims.num_heads * dims.seq_len,
                                (dims.head_dim + kCoarseColumns - 1) / kCoarseColumns);
}

CoarseParams coarse_params(const CoarseArgs& args, const int32_t* kv_len, float2* stats) {
  const auto& [batch, num_heads, num_q_tiles, head_dim] = args.q_pooled.shape;
  return {.q = rows_of(args.q_pooled),
          .k = rows_of(args.k_pooled),
          .v = rows_of(args.v_pooled),
          .kv_len = kv_len,
          .scores = rows_of(args.coarse_scores),
          .out = rows_of(args.coarse_out),
          .stats = args.coarse_out.empty() ? nullptr : stats,
          .num_heads = narrow(num_heads),
          .group_size = narrow(num_heads / args.k_pooled.shape[1]),
          .num_q_tiles = narrow(num_q_tiles),
          .num_kv_tiles = narrow(args.k_pooled.shape[2]),
          .head_dim = narrow(head_dim),
          .scale = *args.scale,
          .rounding = args.rounding};
}

Status run_coarse(const CallSite& at, const CoarseParams& params, int64_t batch) {
  VSA_TRY(run_coarse_scores(at, params, batch));
  return params.out.data == nullptr ? Status() : run_coarse_out(at, params, batch);
}

Status coarse(const Context& context, const CoarseArgs& args) {
  const auto& [batch, num_heads, num_q_tiles, head_dim] = args.q_pooled.shape;
  const Dims scores{batch, num_heads, num_q_tiles, args.k_pooled.shape[2]};
  Call call("coarse", context);
  const PlanTables plans(call.operation(), call.workspace, args.kv_plan);
  CoarseArgs with_scores = args;
  if (args.coarse_scores.empty()) {
    with_scores.coarse_scores = take_coarse_scores(call.workspace, scores);
  }
  float2* stats = nullptr;
  if (!args.coarse_out.empty()) stats = take_coarse_stats(call.workspace, scores);
  return run(call, plans, args, [&](const CallSite& at) {
    return run_coarse(at, coarse_params(with_scores, plans.q().tile_len, stats), batch);
  });
}

}  // namespace vsa::cuda
