// Each stage on its own: workspace, device, then its kernel. Host-only.
#include <fmt/format.h>

#include "src/cuda/coarse.h"
#include "src/cuda/combine.h"
#include "src/cuda/cuda.h"
#include "src/cuda/device.h"
#include "src/cuda/fine.h"
#include "src/cuda/launch.h"
#include "src/cuda/norm_rope_pool.h"
#include "src/cuda/pool.h"
#include "src/cuda/select.h"

namespace vsa::cuda {
namespace {

/// tile or untile: what it reads and writes, under the names of its arguments.
struct Reorder {
  std::string_view operation, from_name, to_name;
  const ConstTensor& from;
  const Tensor& to;
  const TilePlan* plan;
};
template <class Run>
Status reorder(const Context& context, const Reorder& args, const Run& run) {
  const auto& [operation, from_name, to_name, from, to, plan] = args;
  Carver workspace(context);
  const PlanTables plans(operation, workspace, plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(operation));
  const DeviceScope device(
      operation, {{from_name, from}, {to_name, to}, {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  return run({.from = rows_of(from),
              .to = rows_of(to),
              .plan = plans.q(),
              .num_heads = narrow(from.shape[1]),
              .head_dim = narrow(from.shape[3])},
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
  return reorder(context,
                 {.operation = "tile",
                  .from_name = "x",
                  .to_name = "tiled",
                  .from = args.x,
                  .to = args.tiled,
                  .plan = args.plan},
                 run_tile);
}

Status untile(const Context& context, const UntileArgs& args) {
  return reorder(context,
                 {.operation = "untile",
                  .from_name = "tiled",
                  .to_name = "x",
                  .from = args.tiled,
                  .to = args.x,
                  .plan = args.plan},
                 run_untile);
}

Status pool(const Context& context, const PoolArgs& args) {
  Carver workspace(context);
  const PlanTables plans("pool", workspace, args.plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("pool"));
  const DeviceScope device(
      "pool", {{"x", args.x}, {"pooled", args.pooled}, {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  PoolParams params;
  params.add(args.x, plans.q(), args.pooled);
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
  const DeviceScope device(kOperation, {{"x", args.x},
                                        {"weight", args.weight},
                                        {"rstd", args.rstd},
                                        {"cos", args.cos},
                                        {"sin", args.sin},
                                        {"pooled", args.pooled},
                                        {"workspace", context.workspace.data}});
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
                             .num_heads = narrow(args.x.shape[1]),
                             .head_dim = narrow(args.x.shape[3])},
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
    scores = take_coarse_scores(workspace, {batch, num_heads, num_q_tiles, num_kv_tiles});
  }
  float2* stats = nullptr;
  if (!args.coarse_out.empty()) {
    stats = take_coarse_stats(workspace, batch * num_heads * num_q_tiles, num_kv_tiles);
  }
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("coarse"));
  const DeviceScope device("coarse", {{"q_pooled", args.q_pooled},
                                      {"k_pooled", args.k_pooled},
                                      {"v_pooled", args.v_pooled},
                                      {"coarse_scores", args.coarse_scores},
                                      {"coarse_out", args.coarse_out},
                                      {"workspace", context.workspace.data}});
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
                     .num_heads = narrow(num_heads),
                     .group_size = narrow(num_heads / args.k_pooled.shape[1]),
                     .num_q_tiles = narrow(num_q_tiles),
                     .num_kv_tiles = narrow(num_kv_tiles),
                     .head_dim = narrow(head_dim),
                     .scale = *args.scale,
                     .rounding = args.rounding},
                    batch, stream_of(context));
}

Status select(const Context& context, const SelectArgs& args) {
  if (args.coarse_scores.shape[3] >= ScheduleEntry::kMaxBlocks) {
    return unsupported(fmt::format(
        "[select] coarse_scores: expected fewer than 2^28 kv tiles on the cuda backend, got {}",
        args.coarse_scores.shape[3]));
  }
  Carver workspace(context);
  const SelectRules rules(workspace, args.options, args.coarse_scores.shape[2],
                          args.coarse_scores.shape[3]);
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("select"));
  const DeviceScope device("select", {{"coarse_scores", args.coarse_scores},
                                      {"lut", args.lut.index},
                                      {"lut", args.lut.count},
                                      {"workspace", context.workspace.data}});
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
  const Schedule schedule(workspace, plans, args.lut.dims, args.q.shape[3]);
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("fine"));
  const DeviceScope device("fine", {{"q", args.q},
                                    {"k", args.k},
                                    {"v", args.v},
                                    {"out", args.out},
                                    {"lse", args.lse},
                                    {"lut", args.lut.index},
                                    {"lut", args.lut.count},
                                    {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  VSA_TRY(schedule.build("fine", plans, args.lut, stream_of(context)));
  return run_fine_stage({"fine", device.num_sms(), stream_of(context)}, args, plans, schedule, {});
}

Status combine(const Context& context, const CombineArgs& args) {
  Carver workspace(context);
  const PlanTables plans("combine", workspace, args.q_plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status("combine"));
  const DeviceScope device("combine", {{"fine_out", args.fine_out},
                                       {"coarse_out", args.coarse_out},
                                       {"gate_coarse", args.gate_coarse},
                                       {"gate_fine", args.gate_fine},
                                       {"out", args.out},
                                       {"workspace", context.workspace.data}});
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
       .num_heads = narrow(args.out.shape[1]),
       .head_dim = narrow(args.out.shape[3])},
      args.out.dtype, args.out.shape[0], stream_of(context));
}

}  // namespace vsa::cuda
