// torch.ops.vsa: the stages, for those who want to put something between them. Host-only.
#include "bindings/torch/ops.h"

namespace vsa::torch_ops {
namespace {

/// q, k and v pooled over the tiles of one plan.
struct Pooled {
  TorchTensor q, k, v;  // [B, H or H_kv, N, D]
};

TorchTensor pool_one(const Arguments& args, const char* name, const TorchTensor& x,
                     const TilePlan& plan) {
  const Tensor view = args.bshd(name, x);
  TorchTensor pooled =
      new_tensor(x, {x.size(0), x.size(2), plan.num_tiles(), x.size(3)}, tile_dtype(x));
  run<PoolArgs>(vsa::pool, x, {.x = view, .plan = &plan, .pooled = args.bhsd("pooled", pooled)});
  return pooled;
}

Pooled pool_all(const Arguments& args, const TorchTensor& query, const TorchTensor& key,
                const TorchTensor& value, const TilePlan& plan) {
  return {.q = pool_one(args, "query", query, plan),
          .k = pool_one(args, "key", key, plan),
          .v = pool_one(args, "value", value, plan)};
}

TorchTensor pool_backward_one(const Arguments& args, const TorchTensor& dpooled,
                              const TorchTensor& x, const TilePlan& plan) {
  TorchTensor dx = new_like(x);
  run<PoolBackwardArgs>(
      vsa::pool_backward, x,
      {.dpooled = args.bhsd("dpooled", dpooled), .plan = &plan, .dx = args.bshd("dx", dx)});
  return dx;
}

}  // namespace

Tensors3 coarse_select(const TorchTensor& query, const TorchTensor& key, const TorchTensor& value,
                       const OptionalInts& grid, const Ints& tile_shape, int64_t topk,
                       OptionalDouble scale, const OptionalInts& prefix,
                       const std::string& coarse_rounding) {
  const Arguments args("coarse_select", query);
  const SharedPlan plan = args.plan(or_empty(grid), tile_shape, or_empty(prefix));
  const std::vector<int32_t> prefix_list = prefix_tiles(*plan);
  const SelectOptions options = args.select(topk, *plan, prefix_list);
  const Pooled pooled = pool_all(args, query, key, value, *plan);
  const int64_t batch = query.size(0);
  const int64_t heads = query.size(2);
  const int64_t tiles = plan->num_tiles();
  const ScalarType dtype = tile_dtype(query);
  TorchTensor scores = new_tensor(query, {batch, heads, tiles, tiles}, dtype);
  TorchTensor coarse_out = new_tensor(query, {batch, heads, tiles, query.size(3)}, dtype);
  run<CoarseArgs>(vsa::coarse, query,
                  {.q_pooled = args.bhsd("query", pooled.q),
                   .k_pooled = args.bhsd("key", pooled.k),
                   .v_pooled = args.bhsd("value", pooled.v),
                   .kv_plan = plan.get(),
                   .scale = scale_of(scale),
                   .rounding = args.rounding(coarse_rounding),
                   .coarse_scores = args.bhsd("coarse_scores", scores),
                   .coarse_out = args.bhsd("coarse_out", coarse_out)});
  const int64_t pitch = lut_pitch(options, tiles);
  TorchTensor lut = new_tensor(query, {batch, heads, tiles, pitch}, ScalarType::Int);
  TorchTensor lut_count = new_tensor(query, {batch, heads, tiles}, ScalarType::Int);
  run<SelectArgs>(vsa::select, query,
                  {.coarse_scores = args.bhsd("coarse_scores", scores),
                   .options = options,
                   .lut = args.lut(lut, lut_count)});
  return {coarse_out, lut, lut_count};
}

Tensors3 coarse_select_backward(const TorchTensor& dcoarse_out, const TorchTensor& query,
                                const TorchTensor& key, const TorchTensor& value,
                                const OptionalInts& grid, const Ints& tile_shape,
                                OptionalDouble scale, const OptionalInts& prefix) {
  const Arguments args("coarse_select_backward", query);
  const SharedPlan plan = args.plan(or_empty(grid), tile_shape, or_empty(prefix));
  const Pooled pooled = pool_all(args, query, key, value, *plan);
  TorchTensor dq = new_like(pooled.q);
  TorchTensor dk = new_like(pooled.k);
  TorchTensor dv = new_like(pooled.v);
  run<CoarseBackwardArgs>(vsa::coarse_backward, query,
                          {.q_pooled = args.bhsd("query", pooled.q),
                           .k_pooled = args.bhsd("key", pooled.k),
                           .v_pooled = args.bhsd("value", pooled.v),
                           .kv_plan = plan.get(),
                           .scale = scale_of(scale),
                           .dcoarse_out = args.bhsd("dcoarse_out", dcoarse_out),
                           .dq_pooled = args.bhsd("dq_pooled", dq),
                           .dk_pooled = args.bhsd("dk_pooled", dk),
                           .dv_pooled = args.bhsd("dv_pooled", dv)});
  return {pool_backward_one(args, dq, query, *plan), pool_backward_one(args, dk, key, *plan),
          pool_backward_one(args, dv, value, *plan)};
}

Tensors2 block_sparse_attention(const TorchTensor& query, const TorchTensor& key,
                                const TorchTensor& value, const TorchTensor& lut,
                                const TorchTensor& lut_count, const Ints& tile_shape,
                                const OptionalInts& q_grid, const OptionalInts& kv_grid,
                                const OptionalInts& q_tile_len, const OptionalInts& kv_tile_len,
                                OptionalDouble scale) {
  const Arguments args("block_sparse_attention", query);
  const SharedPlan q_plan =
      args.plan_or_tiled(or_empty(q_grid), tile_shape, {}, or_empty(q_tile_len));
  const SharedPlan kv_plan =
      args.plan_or_tiled(or_empty(kv_grid), tile_shape, {}, or_empty(kv_tile_len));
  FineArgs call{.q = args.bshd("query", query),
                .k = args.bshd("key", key),
                .v = args.bshd("value", value),
                .q_plan = q_plan.get(),
                .kv_plan = kv_plan.get(),
                .lut = args.lut(lut, lut_count),
                .scale = scale_of(scale),
                .out = {}};
  TorchTensor out = new_like(query);
  TorchTensor lse =
      new_tensor(query, {query.size(0), query.size(2), query.size(1)}, tile_dtype(query));
  call.out = args.bshd("out", out);
  call.lse = args.lse("lse", lse);
  run<FineArgs>(vsa::fine, query, call);
  return {out, lse};
}

Tensors3 block_sparse_attention_backward(const TorchTensor& dout, const TorchTensor& query,
                                         const TorchTensor& key, const TorchTensor& value,
                                         const TorchTensor& out, const TorchTensor& lse,
                                         const TorchTensor& lut, const TorchTensor& lut_count,
                                         const Ints& tile_shape, const OptionalInts& q_grid,
                                         const OptionalInts& kv_grid,
                                         const OptionalInts& q_tile_len,
                                         const OptionalInts& kv_tile_len, OptionalDouble scale) {
  const Arguments args("block_sparse_attention_backward", query);
  const SharedPlan q_plan =
      args.plan_or_tiled(or_empty(q_grid), tile_shape, {}, or_empty(q_tile_len));
  const SharedPlan kv_plan =
      args.plan_or_tiled(or_empty(kv_grid), tile_shape, {}, or_empty(kv_tile_len));
  TorchTensor dq = new_like(query);
  TorchTensor dk = new_like(key);
  TorchTensor dv = new_like(value);
  run<FineBackwardArgs>(vsa::fine_backward, query,
                        {.q = args.bshd("query", query),
                         .k = args.bshd("key", key),
                         .v = args.bshd("value", value),
                         .q_plan = q_plan.get(),
                         .kv_plan = kv_plan.get(),
                         .lut = args.lut(lut, lut_count),
                         .scale = scale_of(scale),
                         .out = args.bshd("out", out),
                         .lse = args.lse("lse", lse),
                         .dout = args.bshd("dout", dout),
                         .dq = args.bshd("dquery", dq),
                         .dk = args.bshd("dkey", dk),
                         .dv = args.bshd("dvalue", dv)});
  return {dq, dk, dv};
}

bool implements(const std::string& device_type, const std::string& operation) {
  if (device_type != "cpu" && device_type != "cuda") {
    return vsa::implements(take(backend_from_name(device_type)), operation);
  }
  const MemoryKind memory = device_type == "cpu" ? MemoryKind::kHost : MemoryKind::kDevice;
  return vsa::implements(backend_for(memory, std::nullopt), operation);
}

TorchTensor tile(const TorchTensor& x, const OptionalInts& grid, const Ints& tile_shape,
                 const OptionalInts& prefix) {
  const Arguments args("tile", x);
  const SharedPlan plan = args.plan(or_empty(grid), tile_shape, or_empty(prefix));
  const Tensor view = args.bshd("x", x);
  TorchTensor tiled =
      new_tensor(x, {x.size(0), plan->padded_len(), x.size(2), x.size(3)}, x.scalar_type());
  run<TileArgs>(vsa::tile, x, {.x = view, .plan = plan.get(), .tiled = args.bshd("tiled", tiled)});
  return tiled;
}

TorchTensor untile(const TorchTensor& tiled, const OptionalInts& grid, const Ints& tile_shape,
                   const OptionalInts& prefix) {
  const Arguments args("untile", tiled);
  const SharedPlan plan = args.plan(or_empty(grid), tile_shape, or_empty(prefix));
  const Tensor view = args.bshd("tiled", tiled);
  TorchTensor x = new_tensor(tiled, {tiled.size(0), plan->seq_len(), tiled.size(2), tiled.size(3)},
                             tiled.scalar_type());
  run<UntileArgs>(vsa::untile, tiled, {.tiled = view, .plan = plan.get(), .x = args.bshd("x", x)});
  return x;
}

}  // namespace vsa::torch_ops
