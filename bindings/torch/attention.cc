// torch.ops.vsa.video_sparse_attention: the whole operator. Host-only.
#include "bindings/torch/ops.h"

namespace vsa::torch_ops {

Tensors5 video_sparse_attention(const TorchTensor& query, const TorchTensor& key,
                                const TorchTensor& value, const OptionalTensor& gate_coarse,
                                const OptionalTensor& gate_fine, double gate_coarse_weight,
                                double gate_fine_weight, const OptionalInts& grid,
                                const Ints& tile_shape, int64_t topk, OptionalDouble scale,
                                const OptionalInts& prefix, const OptionalInts& q_tile_len,
                                const OptionalInts& kv_tile_len, const std::string& coarse_rounding,
                                bool save_for_backward) {
  const Arguments args("video_sparse_attention", query);
  const SharedPlan q_plan =
      args.plan_or_tiled(or_empty(grid), tile_shape, or_empty(prefix), or_empty(q_tile_len));
  const SharedPlan kv_plan =
      args.plan_or_tiled(or_empty(grid), tile_shape, or_empty(prefix), or_empty(kv_tile_len));
  const std::vector<int32_t> prefix_list = prefix_tiles(*q_plan);
  AttentionArgs call{.q = args.bshd("query", query),
                     .k = args.bshd("key", key),
                     .v = args.bshd("value", value),
                     .gate_coarse = args.gate("gate_coarse", gate_coarse, gate_coarse_weight),
                     .gate_fine = args.gate("gate_fine", gate_fine, gate_fine_weight),
                     .q_plan = q_plan.get(),
                     .kv_plan = kv_plan.get(),
                     .select = args.select(topk, *kv_plan, prefix_list),
                     .scale = scale_of(scale),
                     .rounding = args.rounding(coarse_rounding),
                     .out = {}};
  const int64_t batch = query.size(0);
  const int64_t heads = query.size(2);
  TorchTensor out = new_like(query);
  TorchTensor lse = new_tensor(query, {batch, heads, query.size(1)}, tile_dtype(query));
  TorchTensor fine_out = save_for_backward ? new_like(query) : nothing(query);
  const int64_t pitch = lut_pitch(call.select, kv_plan->num_tiles());
  TorchTensor lut = new_tensor(query, {batch, heads, q_plan->num_tiles(), pitch}, ScalarType::Int);
  TorchTensor lut_count = new_tensor(query, {batch, heads, q_plan->num_tiles()}, ScalarType::Int);
  call.out = args.bshd("out", out);
  call.lse = args.lse("lse", lse);
  if (save_for_backward) call.fine_out = args.bshd("fine_out", fine_out);
  call.lut_out = args.lut(lut, lut_count);
  run<AttentionArgs>(vsa::attention_forward, query, call);
  return {out, lse, fine_out, lut, lut_count};
}

Tensors5 video_sparse_attention_backward(
    const TorchTensor& dout, const TorchTensor& query, const TorchTensor& key,
    const TorchTensor& value, const OptionalTensor& gate_coarse, const OptionalTensor& gate_fine,
    double gate_coarse_weight, double gate_fine_weight, const TorchTensor& lse,
    const TorchTensor& fine_out, const TorchTensor& lut, const TorchTensor& lut_count,
    const OptionalInts& grid, const Ints& tile_shape, OptionalDouble scale,
    const OptionalInts& prefix, const OptionalInts& q_tile_len, const OptionalInts& kv_tile_len) {
  const Arguments args("video_sparse_attention_backward", query);
  const SharedPlan q_plan =
      args.plan_or_tiled(or_empty(grid), tile_shape, or_empty(prefix), or_empty(q_tile_len));
  const SharedPlan kv_plan =
      args.plan_or_tiled(or_empty(grid), tile_shape, or_empty(prefix), or_empty(kv_tile_len));
  TorchTensor dq = new_like(query);
  TorchTensor dk = new_like(key);
  TorchTensor dv = new_like(value);
  TorchTensor dgate_coarse = gate_coarse ? new_like(query) : nothing(query);
  TorchTensor dgate_fine = gate_fine ? new_like(query) : nothing(query);
  AttentionBackwardArgs call{
      .q = args.bshd("query", query),
      .k = args.bshd("key", key),
      .v = args.bshd("value", value),
      .gate_coarse = args.gate("gate_coarse", gate_coarse, gate_coarse_weight),
      .gate_fine = args.gate("gate_fine", gate_fine, gate_fine_weight),
      .q_plan = q_plan.get(),
      .kv_plan = kv_plan.get(),
      .lut = args.lut(lut, lut_count),
      .scale = scale_of(scale),
      .lse = args.lse("lse", lse),
      .fine_out = args.bshd("fine_out", fine_out),
      .dout = args.bshd("dout", dout),
      .dq = args.bshd("dquery", dq),
      .dk = args.bshd("dkey", dk),
      .dv = args.bshd("dvalue", dv)};
  if (gate_coarse) call.dgate_coarse = args.bshd("dgate_coarse", dgate_coarse);
  if (gate_fine) call.dgate_fine = args.bshd("dgate_fine", dgate_fine);
  run<AttentionBackwardArgs>(vsa::attention_backward, query, call);
  return {dq, dk, dv, dgate_coarse, dgate_fine};
}

}  // namespace vsa::torch_ops
