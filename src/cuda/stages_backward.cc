// Gradients of each stage on its own: workspace, device, then its kernels. Host-only.
#include "src/cuda/coarse_gradients.h"
#include "src/cuda/combine_backward.h"
#include "src/cuda/cuda.h"
#include "src/cuda/device.h"
#include "src/cuda/fine_backward.h"
#include "src/cuda/launch.h"
#include "src/cuda/pool.h"

namespace vsa::cuda {
Status pool_backward(const Context& context, const PoolBackwardArgs& args) {
  constexpr std::string_view kOperation = "pool_backward";
  Carver workspace(context);
  const PlanTables plans(kOperation, workspace, args.plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(kOperation));
  const DeviceScope device(
      kOperation,
      {{"dpooled", args.dpooled}, {"dx", args.dx}, {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  return run_pool_backward(kOperation,
                           {.dpooled = rows_of(args.dpooled),
                            .plan = plans.q(),
                            .dx = rows_of(args.dx),
                            .num_heads = narrow(args.dx.shape[1]),
                            .head_dim = narrow(args.dx.shape[3])},
                           args.dx.dtype, args.dx.shape[0], stream_of(context));
}

Status coarse_backward(const Context& context, const CoarseBackwardArgs& args) {
  constexpr std::string_view kOperation = "coarse_backward";
  const auto& [batch, num_heads, num_q_tiles, head_dim] = args.q_pooled.shape;
  Carver workspace(context);
  const PlanTables plans(kOperation, workspace, args.kv_plan);
  VSA_TRY(plans.status());
  const CoarseGradients gradients(workspace, args.q_pooled, args.k_pooled, true);
  float* const out = workspace.take<float>(batch, num_heads, num_q_tiles, head_dim);
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(kOperation));
  const DeviceScope device(kOperation, {{"q_pooled", args.q_pooled},
                                        {"k_pooled", args.k_pooled},
                                        {"v_pooled", args.v_pooled},
                                        {"dcoarse_out", args.dcoarse_out},
                                        {"dq_pooled", args.dq_pooled},
                                        {"dk_pooled", args.dk_pooled},
                                        {"dv_pooled", args.dv_pooled},
                                        {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  const CoarseTensors tensors{
      .q = args.q_pooled,
      .k = args.k_pooled,
      .v = args.v_pooled,
      .out = Tensor::bhsd(out, DType::kF32, {batch, num_heads, num_q_tiles, head_dim}),
      .dout = args.dcoarse_out,
      .dq = args.dq_pooled,
      .dk = args.dk_pooled,
      .dv = args.dv_pooled};
  const int32_t* kv_len = plans.q().tile_len;
  VSA_TRY(gradients.forward(kOperation, tensors, kv_len, *args.scale, stream_of(context)));
  return gradients.backward(kOperation, tensors, kv_len, *args.scale, stream_of(context));
}

Status fine_backward(const Context& context, const FineBackwardArgs& args) {
  constexpr std::string_view kOperation = "fine_backward";
  const auto& [batch, num_heads, seq_len, head_dim] = args.q.shape;
  Carver workspace(context);
  const PlanTables plans(kOperation, workspace, args.q_plan, args.kv_plan);
  VSA_TRY(plans.status());
  const TransposedLut lut_t(workspace, args.lut.dims, args.kv_plan->num_tiles());
  float* const delta = workspace.take<float>(batch, num_heads, seq_len);
  const FineBackwardScratch scratch(workspace, plans, batch * num_heads);
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(kOperation));
  const DeviceScope device(kOperation, {{"q", args.q},
                                        {"k", args.k},
                                        {"v", args.v},
                                        {"out", args.out},
                                        {"lse", args.lse},
                                        {"dout", args.dout},
                                        {"dq", args.dq},
                                        {"dk", args.dk},
                                        {"dv", args.dv},
                                        {"lut", args.lut.index},
                                        {"lut", args.lut.count},
                                        {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  const cudaStream_t stream = stream_of(context);
  VSA_TRY(plans.build(stream));
  const Dims delta_dims{batch, num_heads, seq_len, 1};
  VSA_TRY(run_combine_backward(kOperation,
                               {.dout = rows_of(args.dout),
                                .fine_out = rows_of(args.out),
                                .gate_fine = {.rows = {}, .constant = 1.0F},
                                .plan = plans.q(),
                                .delta = rows_of(Tensor::bhsd(delta, DType::kF32, delta_dims)),
                                .num_heads = narrow(num_heads),
                                .head_dim = narrow(head_dim)},
                               args.q.dtype, batch, stream));
  VSA_TRY(lut_t.build(kOperation, args.lut, stream));
  return run_fine_backward(kOperation,
                           {.q = args.q,
                            .k = args.k,
                            .v = args.v,
                            .dout = args.dout,
                            .lse = args.lse,
                            .delta = delta,
                            .scale = *args.scale,
                            .lut = args.lut,
                            .lut_t = lut_t.view(),
                            .scratch = scratch,
                            .dq = args.dq,
                            .dk = args.dk,
                            .dv = args.dv},
                           plans, device.num_sms(), stream);
}

Status combine_backward(const Context& context, const CombineBackwardArgs& args) {
  constexpr std::string_view kOperation = "combine_backward";
  Carver workspace(context);
  const PlanTables plans(kOperation, workspace, args.q_plan);
  VSA_TRY(plans.status());
  if (workspace.answers_query()) return {};
  VSA_TRY(workspace.status(kOperation));
  const DeviceScope device(kOperation, {{"dout", args.dout},
                                        {"fine_out", args.fine_out},
                                        {"coarse_out", args.coarse_out},
                                        {"gate_coarse", args.gate_coarse},
                                        {"gate_fine", args.gate_fine},
                                        {"dfine_out", args.dfine_out},
                                        {"dcoarse_out", args.dcoarse_out},
                                        {"dgate_coarse", args.dgate_coarse},
                                        {"dgate_fine", args.dgate_fine},
                                        {"workspace", context.workspace.data}});
  VSA_TRY(device.status());
  VSA_TRY(plans.build(stream_of(context)));
  return run_combine_backward(kOperation,
                              {.dout = rows_of(args.dout),
                               .fine_out = rows_of(args.fine_out),
                               .coarse_out = rows_of(args.coarse_out),
                               .gate_fine = gate_rows(args.gate_fine),
                               .gate_coarse = gate_rows(args.gate_coarse),
                               .plan = plans.q(),
                               .dfine_out = rows_of(args.dfine_out),
                               .dgate_fine = rows_of(args.dgate_fine),
                               .dgate_coarse = rows_of(args.dgate_coarse),
                               .dcoarse_out = rows_of(args.dcoarse_out),
                               .num_heads = narrow(args.dout.shape[1]),
                               .head_dim = narrow(args.dout.shape[3])},
                              args.dout.dtype, args.dout.shape[0], stream_of(context));
}

}  // namespace vsa::cuda
