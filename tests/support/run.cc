#include "tests/support/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vsa::test {
namespace {

/// Dims of a tensor beside x that has another number of rows and columns.
Dims like(const TestTensor& x, int64_t seq_len, int64_t head_dim) {
  Dims dims = x.dims();
  dims.seq_len = seq_len;
  dims.head_dim = head_dim;
  return dims;
}

/// An output tensor with the dims, dtype and memory order of x.
TestTensor like(const TestTensor& x) { return {x.dtype(), x.dims(), x.order()}; }

template <class... Tensors>
void expect_guards_intact(const Tensors&... tensors) {
  EXPECT_TRUE((tensors.guards_intact() && ...)) << "memory outside of an output was written";
}

}  // namespace

DType tile_dtype(DType token_dtype) {
  return token_dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

float default_scale(int64_t head_dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

Qkv as_f64(const Qkv& in) {
  return {.q = in.q.as(DType::kF64),
          .k = in.k.as(DType::kF64),
          .v = in.v.as(DType::kF64),
          .q_plan = in.q_plan,
          .kv_plan = in.kv_plan,
          .scale = in.scale,
          .last_key_repeats = in.last_key_repeats};
}

TestTensor run_tile(const Context& context, const TestTensor& x, const TilePlan& plan) {
  TestTensor tiled(x.dtype(), like(x, plan.padded_len(), x.dims().head_dim), x.order());
  throw_if_error(tile(context, {.x = x, .plan = &plan, .tiled = tiled}));
  expect_guards_intact(tiled);
  return tiled;
}

TestTensor run_untile(const Context& context, const TestTensor& tiled, const TilePlan& plan) {
  TestTensor x(tiled.dtype(), like(tiled, plan.seq_len(), tiled.dims().head_dim), tiled.order());
  throw_if_error(untile(context, {.tiled = tiled, .plan = &plan, .x = x}));
  expect_guards_intact(x);
  return x;
}

TestTensor run_pool(const Context& context, const TestTensor& x, const TilePlan& plan) {
  TestTensor pooled(tile_dtype(x.dtype()), like(x, plan.num_tiles(), x.dims().head_dim), x.order());
  throw_if_error(pool(context, {.x = x, .plan = &plan, .pooled = pooled}));
  expect_guards_intact(pooled);
  return pooled;
}

TestTensor run_pool_backward(const Context& context, const TestTensor& dpooled,
                             const TilePlan& plan, DType dtype) {
  TestTensor dx(dtype, like(dpooled, plan.seq_len(), dpooled.dims().head_dim), dpooled.order());
  throw_if_error(pool_backward(context, {.dpooled = dpooled, .plan = &plan, .dx = dx}));
  expect_guards_intact(dx);
  return dx;
}

CoarseResult run_coarse(const Context& context, const TestTensor& q_pooled,
                        const TestTensor& k_pooled, const TestTensor& v_pooled,
                        const TilePlan& kv_plan, std::optional<float> scale,
                        CoarseRounding rounding) {
  CoarseResult result{
      .scores = {q_pooled.dtype(), like(q_pooled, q_pooled.dims().seq_len, k_pooled.dims().seq_len),
                 q_pooled.order()},
      .out = like(q_pooled)};
  throw_if_error(coarse(context, {.q_pooled = q_pooled,
                                  .k_pooled = k_pooled,
                                  .v_pooled = v_pooled,
                                  .kv_plan = &kv_plan,
                                  .scale = scale,
                                  .rounding = rounding,
                                  .coarse_scores = result.scores,
                                  .coarse_out = result.out}));
  expect_guards_intact(result.scores, result.out);
  return result;
}

Gradients run_coarse_backward(const Context& context, const Qkv& pooled,
                              const TestTensor& dcoarse_out) {
  Gradients result{.dq = like(pooled.q), .dk = like(pooled.k), .dv = like(pooled.v)};
  throw_if_error(coarse_backward(context, {.q_pooled = pooled.q,
                                           .k_pooled = pooled.k,
                                           .v_pooled = pooled.v,
                                           .kv_plan = &pooled.kv_plan,
                                           .scale = pooled.scale,
                                           .dcoarse_out = dcoarse_out,
                                           .dq_pooled = result.dq,
                                           .dk_pooled = result.dk,
                                           .dv_pooled = result.dv}));
  expect_guards_intact(result.dq, result.dk, result.dv);
  return result;
}

LutBuffer run_select(const Context& context, const TestTensor& scores,
                     const SelectOptions& options) {
  const Dims dims = scores.dims();
  LutBuffer lut({.batch = dims.batch,
                 .num_heads = dims.num_heads,
                 .num_q_tiles = dims.seq_len,
                 .pitch = lut_pitch(options, dims.head_dim)});
  throw_if_error(select(context, {.coarse_scores = scores, .options = options, .lut = lut.view()}));
  return lut;
}

FineResult run_fine(const Context& context, const Qkv& in, const ConstLut& lut) {
  FineResult result{
      .out = like(in.q),
      .lse = {tile_dtype(in.q.dtype()), like(in.q, in.q.dims().seq_len, 1), in.q.order()}};
  throw_if_error(fine(context, {.q = in.q,
                                .k = in.k,
                                .v = in.v,
                                .q_plan = &in.q_plan,
                                .kv_plan = &in.kv_plan,
                                .lut = lut,
                                .scale = in.scale,
                                .out = result.out,
                                .lse = result.lse,
                                .last_key_repeats = in.last_key_repeats}));
  expect_guards_intact(result.out, result.lse);
  return result;
}

Gradients run_fine_backward(const Context& context, const Qkv& in, const ConstLut& lut,
                            const FineResult& forward, const TestTensor& dout) {
  Gradients result{.dq = like(in.q), .dk = like(in.k), .dv = like(in.v)};
  throw_if_error(fine_backward(context, {.q = in.q,
                                         .k = in.k,
                                         .v = in.v,
                                         .q_plan = &in.q_plan,
                                         .kv_plan = &in.kv_plan,
                                         .lut = lut,
                                         .scale = in.scale,
                                         .out = forward.out,
                                         .lse = forward.lse,
                                         .dout = dout,
                                         .dq = result.dq,
                                         .dk = result.dk,
                                         .dv = result.dv}));
  expect_guards_intact(result.dq, result.dk, result.dv);
  return result;
}

TestTensor run_combine(const Context& context, const TestTensor& fine_out,
                       const TestTensor& coarse_out, const Gate& gate_coarse, const Gate& gate_fine,
                       const TilePlan& q_plan) {
  TestTensor out = like(fine_out);
  throw_if_error(combine(context, {.fine_out = fine_out,
                                   .coarse_out = coarse_out,
                                   .gate_coarse = gate_coarse,
                                   .gate_fine = gate_fine,
                                   .q_plan = &q_plan,
                                   .out = out}));
  expect_guards_intact(out);
  return out;
}

CombineGradients run_combine_backward(const Context& context, const TestTensor& fine_out,
                                      const TestTensor& coarse_out, const Gate& gate_coarse,
                                      const Gate& gate_fine, const TilePlan& q_plan,
                                      const TestTensor& dout) {
  CombineGradients result{.dfine_out = like(dout),
                          .dcoarse_out = like(coarse_out),
                          .dgate_coarse = like(dout),
                          .dgate_fine = like(dout)};
  throw_if_error(combine_backward(context, {.fine_out = fine_out,
                                            .coarse_out = coarse_out,
                                            .gate_coarse = gate_coarse,
                                            .gate_fine = gate_fine,
                                            .q_plan = &q_plan,
                                            .dout = dout,
                                            .dfine_out = result.dfine_out,
                                            .dcoarse_out = result.dcoarse_out,
                                            .dgate_coarse = result.dgate_coarse,
                                            .dgate_fine = result.dgate_fine}));
  expect_guards_intact(result.dfine_out, result.dcoarse_out, result.dgate_coarse,
                       result.dgate_fine);
  return result;
}

AttentionResult run_attention(const Context& context, const Qkv& in,
                              const AttentionOptions& options) {
  const Dims dims = in.q.dims();
  const int64_t num_kv_tiles = in.kv_plan.num_tiles();
  AttentionResult result{
      .out = like(in.q),
      .lse = {tile_dtype(in.q.dtype()), like(in.q, dims.seq_len, 1), in.q.order()},
      .fine_out = like(in.q),
      .lut = LutBuffer({.batch = dims.batch,
                        .num_heads = dims.num_heads,
                        .num_q_tiles = in.q_plan.num_tiles(),
                        .pitch = options.lut.empty() ? lut_pitch(options.select, num_kv_tiles)
                                                     : options.lut.dims.pitch})};
  throw_if_error(attention_forward(context, {.q = in.q,
                                             .k = in.k,
                                             .v = in.v,
                                             .gate_coarse = options.gate_coarse,
                                             .gate_fine = options.gate_fine,
                                             .q_plan = &in.q_plan,
                                             .kv_plan = &in.kv_plan,
                                             .select = options.select,
                                             .lut = options.lut,
                                             .scale = in.scale,
                                             .rounding = options.rounding,
                                             .q_pooled = options.q_pooled,
                                             .k_pooled = options.k_pooled,
                                             .v_pooled = options.v_pooled,
                                             .coarse_out = options.coarse_out,
                                             .out = result.out,
                                             .lse = result.lse,
                                             .fine_out = result.fine_out,
                                             .lut_out = result.lut.view()}));
  expect_guards_intact(result.out, result.lse, result.fine_out);
  return result;
}

AttentionGradients run_attention_backward(const Context& context, const Qkv& in,
                                          const AttentionOptions& options,
                                          const AttentionResult& forward, const TestTensor& dout) {
  AttentionGradients result{.dq = like(in.q),
                            .dk = like(in.k),
                            .dv = like(in.v),
                            .dgate_coarse = like(in.q),
                            .dgate_fine = like(in.q)};
  throw_if_error(attention_backward(context, {.q = in.q,
                                              .k = in.k,
                                              .v = in.v,
                                              .gate_coarse = options.gate_coarse,
                                              .gate_fine = options.gate_fine,
                                              .q_plan = &in.q_plan,
                                              .kv_plan = &in.kv_plan,
                                              .lut = forward.lut.view(),
                                              .scale = in.scale,
                                              .lse = forward.lse,
                                              .fine_out = forward.fine_out,
                                              .dout = dout,
                                              .dq = result.dq,
                                              .dk = result.dk,
                                              .dv = result.dv,
                                              .dgate_coarse = result.dgate_coarse,
                                              .dgate_fine = result.dgate_fine}));
  expect_guards_intact(result.dq, result.dk, result.dv, result.dgate_coarse, result.dgate_fine);
  return result;
}

LutBuffer full_lut(int64_t batch, int64_t num_heads, int64_t num_q_tiles, int64_t num_kv_tiles) {
  std::vector<int32_t> all(static_cast<size_t>(num_kv_tiles));
  std::iota(all.begin(), all.end(), 0);
  return lut_of_rows(batch, num_heads,
                     std::vector<std::vector<int32_t>>(static_cast<size_t>(num_q_tiles), all));
}

LutBuffer lut_of_rows(int64_t batch, int64_t num_heads,
                      const std::vector<std::vector<int32_t>>& rows) {
  size_t pitch = 1;
  for (const auto& row : rows) pitch = std::max(pitch, row.size());
  LutBuffer lut({.batch = batch,
                 .num_heads = num_heads,
                 .num_q_tiles = static_cast<int64_t>(rows.size()),
                 .pitch = static_cast<int64_t>(pitch)});
  const Lut view = lut.view();
  for (size_t i = 0; i < static_cast<size_t>(batch * num_heads) * rows.size(); ++i) {
    const auto& row = rows[i % rows.size()];
    std::ranges::copy(row, view.index + i * pitch);
    view.count[i] = static_cast<int32_t>(row.size());
  }
  return lut;
}

}  // namespace vsa::test
