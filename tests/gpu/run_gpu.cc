#include "tests/gpu/run_gpu.h"

#include <optional>

#include "tests/gpu/output.h"

namespace vsa::test::gpu {

TestTensor run_tile(const TestTensor& x, const TilePlan& plan) {
  const DeviceTensor from(x.view());
  Output to(x.dtype(), with(x.dims(), plan.padded_len(), x.dims().head_dim), x.order());
  run_on_gpu(
      [&](const Context& c) { return tile(c, {.x = from.view(), .plan = &plan, .tiled = to}); });
  return to.take();
}

TestTensor run_untile(const TestTensor& tiled, const TilePlan& plan) {
  const DeviceTensor from(tiled.view());
  Output to(tiled.dtype(), with(tiled.dims(), plan.seq_len(), tiled.dims().head_dim),
            tiled.order());
  run_on_gpu(
      [&](const Context& c) { return untile(c, {.tiled = from.view(), .plan = &plan, .x = to}); });
  return to.take();
}

TestTensor run_pool(const TestTensor& x, const TilePlan& plan) {
  const DeviceTensor from(x.view());
  Output to(DType::kF32, with(x.dims(), plan.num_tiles(), x.dims().head_dim), x.order());
  run_on_gpu(
      [&](const Context& c) { return pool(c, {.x = from.view(), .plan = &plan, .pooled = to}); });
  return to.take();
}

CoarseResult run_coarse(const Qkv& pooled, CoarseRounding rounding) {
  const DeviceTensor q(pooled.q.view());
  const DeviceTensor k(pooled.k.view());
  const DeviceTensor v(pooled.v.view());
  Output scores(DType::kF32,
                with(pooled.q.dims(), pooled.q.dims().seq_len, pooled.k.dims().seq_len),
                pooled.q.order());
  Output out(DType::kF32, pooled.q.dims(), pooled.q.order());
  run_on_gpu([&](const Context& c) {
    return coarse(c, {.q_pooled = q.view(),
                      .k_pooled = k.view(),
                      .v_pooled = v.view(),
                      .kv_plan = &pooled.kv_plan,
                      .scale = pooled.scale,
                      .rounding = rounding,
                      .coarse_scores = scores,
                      .coarse_out = out});
  });
  return {.scores = scores.take(), .out = out.take()};
}

LutBuffer run_select(const TestTensor& scores, const SelectOptions& options) {
  const DeviceTensor from(scores.view());
  const Dims dims = scores.dims();
  LutBuffer lut({.batch = dims.batch,
                 .num_heads = dims.num_heads,
                 .num_q_tiles = dims.seq_len,
                 .pitch = lut_pitch(options, dims.head_dim)});
  const DeviceLut to(lut.view());
  run_on_gpu([&](const Context& c) {
    return select(c, {.coarse_scores = from.view(), .options = options, .lut = to.view()});
  });
  to.download(lut.view());
  return lut;
}

FineResult run_fine(const Qkv& in, const ConstLut& lut) {
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  const DeviceLut table(lut);
  Output out(in.q.dtype(), in.q.dims(), in.q.order());
  Output lse(DType::kF32, with(in.q.dims(), in.q.dims().seq_len, 1), in.q.order());
  run_on_gpu([&](const Context& c) {
    return fine(c, {.q = q.view(),
                    .k = k.view(),
                    .v = v.view(),
                    .q_plan = &in.q_plan,
                    .kv_plan = &in.kv_plan,
                    .lut = table.view(),
                    .scale = in.scale,
                    .out = out,
                    .lse = lse,
                    .last_key_repeats = in.last_key_repeats});
  });
  return {.out = out.take(), .lse = lse.take()};
}

TestTensor run_combine(const TestTensor& fine_out, const TestTensor& coarse_out,
                       const Gate& gate_coarse, const Gate& gate_fine, const TilePlan& q_plan) {
  const DeviceTensor fine(fine_out.view());
  const DeviceTensor coarse(coarse_out.view());
  const DeviceGate coarse_gate(gate_coarse);
  const DeviceGate fine_gate(gate_fine);
  Output out(fine_out.dtype(), fine_out.dims(), fine_out.order());
  run_on_gpu([&](const Context& c) {
    return combine(c, {.fine_out = fine.view(),
                       .coarse_out = coarse.view(),
                       .gate_coarse = coarse_gate.gate(),
                       .gate_fine = fine_gate.gate(),
                       .q_plan = &q_plan,
                       .out = out});
  });
  return out.take();
}

AttentionResult run_attention(const Qkv& in, const AttentionOptions& options, Outputs outputs) {
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  const DeviceGate coarse_gate(options.gate_coarse);
  const DeviceGate fine_gate(options.gate_fine);
  const Dims dims = in.q.dims();
  LutBuffer lut({.batch = dims.batch,
                 .num_heads = dims.num_heads,
                 .num_q_tiles = in.q_plan.num_tiles(),
                 .pitch = options.lut.empty() ? lut_pitch(options.select, in.kv_plan.num_tiles())
                                              : options.lut.dims.pitch});
  const DeviceLut table(lut.view());
  std::optional<DeviceLut> given;
  if (!options.lut.empty()) given.emplace(options.lut);
  Output out(in.q.dtype(), dims, in.q.order());
  Output lse(DType::kF32, with(dims, dims.seq_len, 1), in.q.order());
  Output fine_out(in.q.dtype(), dims, in.q.order());
  const bool all = outputs == Outputs::kAll;
  const auto existing = [](const ConstTensor& host) {
    return host.empty() ? std::optional<DeviceTensor>() : std::optional<DeviceTensor>(host);
  };
  const auto q_pooled = existing(options.q_pooled);
  const auto k_pooled = existing(options.k_pooled);
  const auto v_pooled = existing(options.v_pooled);
  const auto coarse_out = existing(options.coarse_out);
  const auto there = [](const std::optional<DeviceTensor>& tensor) {
    return tensor ? ConstTensor(tensor->view()) : ConstTensor{};
  };
  run_on_gpu([&](const Context& c) {
    return attention_forward(c, {.q = q.view(),
                                 .k = k.view(),
                                 .v = v.view(),
                                 .gate_coarse = coarse_gate.gate(),
                                 .gate_fine = fine_gate.gate(),
                                 .q_plan = &in.q_plan,
                                 .kv_plan = &in.kv_plan,
                                 .select = options.select,
                                 .lut = given ? ConstLut(given->view()) : ConstLut{},
                                 .scale = in.scale,
                                 .rounding = options.rounding,
                                 .q_pooled = there(q_pooled),
                                 .k_pooled = there(k_pooled),
                                 .v_pooled = there(v_pooled),
                                 .coarse_out = there(coarse_out),
                                 .out = out,
                                 .lse = all ? Tensor(lse) : Tensor{},
                                 .fine_out = all ? Tensor(fine_out) : Tensor{},
                                 .lut_out = table.view()});
  });
  table.download(lut.view());
  return {.out = out.take(), .lse = lse.take(), .fine_out = fine_out.take(), .lut = lut};
}

}  // namespace vsa::test::gpu
