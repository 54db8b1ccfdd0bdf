// Each stage on its own: workspace, device, then its kernel. Host-only.
#include <fmt/format.h>

#include "src/cuda/coarse.h"
#include "src/cuda/combine.h"
#include "src/cuda/cuda.h"
#include "src/cuda/device.h"
#include "src/cuda/fine.h"
#include "src/cuda/norm_rope_pool.h"
#include "src/cuda/pool.h"
#include "src/cuda/select.h"

namespace vsa::cuda {
namespace {

cudaStream_t stream_of(const Context& context) { return static_cast<cudaStream_t>(context.stream); }

/// tile or untile.
template <class Run>
Status reorder(const Context& context, std::string_view operation, std::string_view argument,
               const ConstTensor& from, const TilePlan* plan, const Tensor& to, const Run& run) {
  Carver workspace(context);
  const PlanTables plans(operation, workspace, plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(operation));
  const DeviceScope device(operation, argument, from.data);
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  return run({.from = rows_of(from),
              .to = rows_of(to),
              .plan = plans.q(),
              .num_heads = static_cast<int32_t>(from.shape[1]),
              .head_dim = static_cast<int32_t>(from.shape[3])},
             from.shape[0], stream_of(context));
}

/// Angles are read 16 bytes at a time.
Status check_angles(std::string_view operation, std::string_view argument, const ConstTensor& t) {
  if (reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride[2] % 4 == 0) return {};
  return unsupported(
      fmt::format("[{}] {}: expected rows at multiples of 16 bytes on the cuda "
                  "backend, got address {} and stride {}",
                  operation, argument, t.data, t.stride[2]));
}

}  // namespace

Status tile(const Context& context, const TileArgs& args) {
  return reorder(context, "tile", "x", args.x, args.plan, args.tiled, run_tile);
}

Status untile(const Context& context, const UntileArgs& args) {
  return reorder(context, "untile", "tiled", args.tiled, args.plan, args.x, run_untile);
}

Status pool(const Context& context, const PoolArgs& args) {
  Carver workspace(context);
  const PlanTables plans("pool", workspace, args.plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("pool"));
  const DeviceScope device("pool", "x", args.x.data);
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  PoolParams params;
  params.part[0] = {.x = rows_of(args.x),
                    .plan = plans.q(),
                    .num_heads = static_cast<int32_t>(args.x.shape[1]),
                    .pooled = rows_of(args.pooled)};
  params.num_parts = 1;
  params.head_dim = static_cast<int32_t>(args.x.shape[3]);
  return run_pool("pool", params, args.x.dtype, args.x.shape[0], stream_of(context));
}

Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args) {
  constexpr std::string_view kOperation = "norm_rope_pool";
  if (!args.cos.empty()) {
    VSA_TRY(check_angles(kOperation, "cos", args.cos));
    VSA_TRY(check_angles(kOperation, "sin", args.sin));
  }
  Carver workspace(context);
  const PlanTables plans(kOperation, workspace, args.plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(kOperation));
  const DeviceScope device(kOperation, "x", args.x.data);
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  return run_norm_rope_pool(kOperation,
                            {.x = rows_of(args.x),
                             .plan = plans.q(),
                             .weight = rows_of(args.weight),
                             .rstd = rows_of(args.rstd),
                             .cos = rows_of(args.cos),
                             .sin = rows_of(args.sin),
                             .pooled = rows_of(args.pooled),
                             .norm = args.norm,
                             .eps = args.eps,
                             .num_heads = static_cast<int32_t>(args.x.shape[1]),
                             .head_dim = static_cast<int32_t>(args.x.shape[3])},
                            args.x.dtype, args.x.shape[0], stream_of(context));
}

Status coarse(const Context& context, const CoarseArgs& args) {
  const auto& [batch, num_heads, num_q_tiles, head_dim] = args.q_pooled.shape;
  const int64_t num_kv_tiles = args.k_pooled.shape[2];
  Carver workspace(context);
  const PlanTables plans("coarse", workspace, args.kv_plan);
  VSA_TRY(plans.status());
  Tensor scores = args.coarse_scores;
  if (scores.empty()) {
    scores = Tensor::bhsd(workspace.take<float>(batch * num_heads * num_q_tiles * num_kv_tiles),
                          DType::kF32, {batch, num_heads, num_q_tiles, num_kv_tiles});
  }
  float2* stats = nullptr;
  if (!args.coarse_out.empty()) {
    stats = take_coarse_stats(workspace, batch * num_heads * num_q_tiles, num_kv_tiles);
  }
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("coarse"));
  const DeviceScope device("coarse", "q_pooled", args.q_pooled.data);
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  return run_coarse("coarse",
                    {.q = rows_of(args.q_pooled),
                     .k = rows_of(args.k_pooled),
                     .v = rows_of(args.v_pooled),
                     .kv_len = plans.q().tile_len,
                     .scores = rows_of(scores),
                     .out = rows_of(args.coarse_out),
                     .stats = stats,
                     .num_heads = static_cast<int32_t>(num_heads),
                     .group_size = static_cast<int32_t>(num_heads / args.k_pooled.shape[1]),
                     .num_q_tiles = static_cast<int32_t>(num_q_tiles),
                     .num_kv_tiles = static_cast<int32_t>(num_kv_tiles),
                     .head_dim = static_cast<int32_t>(head_dim),
                     .scale = *args.scale,
                     .rounding = args.rounding},
                    batch, stream_of(context));
}

Status select(const Context& context, const SelectArgs& args) {
  Carver workspace(context);
  const SelectRules rules(workspace, args.options, args.coarse_scores.shape[2],
                          args.coarse_scores.shape[3]);
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("select"));
  const DeviceScope device("select", "coarse_scores", args.coarse_scores.data);
  VSA_TRY(device.status());
  VSA_TRY(rules.build("select", stream_of(context)));
  SelectParams params{.scores = rows_of(args.coarse_scores), .lut = args.lut};
  rules.apply_to(params);
  return run_select("select", params, stream_of(context));
}

Status fine(const Context& context, const FineArgs& args) {
  Carver workspace(context);
  const PlanTables plans("fine", workspace, args.q_plan, args.kv_plan);
  VSA_TRY(plans.status());
  const Schedule schedule(workspace, plans, args.lut.dims);
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("fine"));
  const DeviceScope device("fine", "q", args.q.data);
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  VSA_TRY(schedule.build("fine", plans, args.lut, stream_of(context)));
  return run_fine_stage(args, plans, schedule, 1.0F, {}, device.num_sms(), stream_of(context));
}

Status combine(const Context& context, const CombineArgs& args) {
  Carver workspace(context);
  const PlanTables plans("combine", workspace, args.q_plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("combine"));
  const DeviceScope device("combine", "fine_out", args.fine_out.data);
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  const ConstTensor& coarse_out = args.coarse_out;
  const bool has_fine = !args.gate_fine.is_zero();  // 0 removes a branch, its NaN too
  const bool has_coarse = !args.gate_coarse.is_zero();
  return run_combine(
      "combine",
      {.fine_out = has_fine ? rows_of(args.fine_out) : ConstRows{},
       .coarse_out = has_coarse ? static_cast<const float*>(coarse_out.data) : nullptr,
       .coarse_batch = coarse_out.stride[0],
       .coarse_head = coarse_out.stride[1],
       .coarse_seq = coarse_out.stride[2],
       .gate_fine = gate_rows(args.gate_fine),
       .gate_coarse = gate_rows(args.gate_coarse),
       .plan = plans.q(),
       .out = rows_of(args.out),
       .num_heads = static_cast<int32_t>(args.out.shape[1]),
       .head_dim = static_cast<int32_t>(args.out.shape[3])},
      args.out.dtype, args.out.shape[0], stream_of(context));
}

}  // namespace vsa::cuda
