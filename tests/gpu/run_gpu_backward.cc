#include "tests/gpu/output.h"
#include "tests/gpu/run_gpu.h"

namespace vsa::test::gpu {

TestTensor run_pool_backward(const TestTensor& dpooled, const TilePlan& plan, DType dtype) {
  const DeviceTensor from(dpooled.view());
  Output dx(dtype, with(dpooled.dims(), plan.seq_len(), dpooled.dims().head_dim), dpooled.order());
  run_on_gpu([&](const Context& c) {
    return pool_backward(c, {.dpooled = from.view(), .plan = &plan, .dx = dx});
  });
  return dx.take();
}

Gradients run_coarse_backward(const Qkv& pooled, const TestTensor& dcoarse_out) {
  const DeviceTensor q(pooled.q.view());
  const DeviceTensor k(pooled.k.view());
  const DeviceTensor v(pooled.v.view());
  const DeviceTensor dout(dcoarse_out.view());
  Output dq(DType::kF32, pooled.q.dims(), pooled.q.order());
  Output dk(DType::kF32, pooled.k.dims(), pooled.k.order());
  Output dv(DType::kF32, pooled.k.dims(), pooled.k.order());
  run_on_gpu([&](const Context& c) {
    return coarse_backward(c, {.q_pooled = q.view(),
                               .k_pooled = k.view(),
                               .v_pooled = v.view(),
                               .kv_plan = &pooled.kv_plan,
                               .scale = pooled.scale,
                               .dcoarse_out = dout.view(),
                               .dq_pooled = dq,
                               .dk_pooled = dk,
                               .dv_pooled = dv});
  });
  return {.dq = dq.take(), .dk = dk.take(), .dv = dv.take()};
}

Gradients run_fine_backward(const Qkv& in, const ConstLut& lut, const FineResult& forward,
                            const TestTensor& dout) {
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  const DeviceTensor out(forward.out.view());
  const DeviceTensor lse(forward.lse.view());
  const DeviceTensor device_dout(dout.view());
  const DeviceLut table(lut);
  Output dq(in.q.dtype(), in.q.dims(), in.q.order());
  Output dk(in.q.dtype(), in.k.dims(), in.k.order());
  Output dv(in.q.dtype(), in.k.dims(), in.k.order());
  run_on_gpu([&](const Context& c) {
    return fine_backward(c, {.q = q.view(),
                             .k = k.view(),
                             .v = v.view(),
                             .q_plan = &in.q_plan,
                             .kv_plan = &in.kv_plan,
                             .lut = table.view(),
                             .scale = in.scale,
                             .out = out.view(),
                             .lse = lse.view(),
                             .dout = device_dout.view(),
                             .dq = dq,
                             .dk = dk,
                             .dv = dv});
  });
  return {.dq = dq.take(), .dk = dk.take(), .dv = dv.take()};
}

CombineGradients run_combine_backward(const TestTensor& fine_out, const TestTensor& coarse_out,
                                      const Gate& gate_coarse, const Gate& gate_fine,
                                      const TilePlan& q_plan, const TestTensor& dout) {
  const DeviceTensor fine(fine_out.view());
  const DeviceTensor coarse(coarse_out.view());
  const DeviceTensor device_dout(dout.view());
  const DeviceGate coarse_gate(gate_coarse);
  const DeviceGate fine_gate(gate_fine);
  Output dfine_out(fine_out.dtype(), fine_out.dims(), fine_out.order());
  Output dcoarse_out(DType::kF32, coarse_out.dims(), coarse_out.order());
  Output dgate_coarse(fine_out.dtype(), fine_out.dims(), fine_out.order());
  Output dgate_fine(fine_out.dtype(), fine_out.dims(), fine_out.order());
  run_on_gpu([&](const Context& c) {
    return combine_backward(c, {.fine_out = fine.view(),
                                .coarse_out = coarse.view(),
                                .gate_coarse = coarse_gate.gate(),
                                .gate_fine = fine_gate.gate(),
                                .q_plan = &q_plan,
                                .dout = device_dout.view(),
                                .dfine_out = dfine_out,
                                .dcoarse_out = dcoarse_out,
                                .dgate_coarse = dgate_coarse,
                                .dgate_fine = dgate_fine});
  });
  return {.dfine_out = dfine_out.take(),
          .dcoarse_out = dcoarse_out.take(),
          .dgate_coarse = dgate_coarse.take(),
          .dgate_fine = dgate_fine.take()};
}

AttentionGradients run_attention_backward(const Qkv& in, const AttentionOptions& options,
                                          const AttentionResult& forward, const TestTensor& dout) {
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  const DeviceTensor lse(forward.lse.view());
  const DeviceTensor fine_out(forward.fine_out.view());
  const DeviceTensor device_dout(dout.view());
  const DeviceGate coarse_gate(options.gate_coarse);
  const DeviceGate fine_gate(options.gate_fine);
  const DeviceLut table(forward.lut.view());
  const auto like = [&](const TestTensor& x) { return Output(in.q.dtype(), x.dims(), x.order()); };
  Output dq = like(in.q);
  Output dk = like(in.k);
  Output dv = like(in.v);
  Output dgate_coarse = like(in.q);
  Output dgate_fine = like(in.q);
  run_on_gpu([&](const Context& c) {
    return attention_backward(c, {.q = q.view(),
                                  .k = k.view(),
                                  .v = v.view(),
                                  .gate_coarse = coarse_gate.gate(),
                                  .gate_fine = fine_gate.gate(),
                                  .q_plan = &in.q_plan,
                                  .kv_plan = &in.kv_plan,
                                  .lut = table.view(),
                                  .scale = in.scale,
                                  .lse = lse.view(),
                                  .fine_out = fine_out.view(),
                                  .dout = device_dout.view(),
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv,
                                  .dgate_coarse = dgate_coarse,
                                  .dgate_fine = dgate_fine});
  });
  return {.dq = dq.take(),
          .dk = dk.take(),
          .dv = dv.take(),
          .dgate_coarse = dgate_coarse.take(),
          .dgate_fine = dgate_fine.take()};
}

}  // namespace vsa::test::gpu
