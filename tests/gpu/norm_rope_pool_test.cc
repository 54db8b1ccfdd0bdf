// Parity of norm_rope_pool of the CUDA backend with the fp64 reference.
#include "tests/support/norm_rope_pool.h"

#include "tests/gpu/cases.h"

namespace vsa::test::gpu {
namespace {

void run_there(NormRopePoolTensors& t, const TilePlan& plan, const NormRopePoolExtras& extras) {
  const DeviceTensor x(ConstTensor(t.x.view()));
  const DeviceTensor pooled(ConstTensor(t.pooled.view()));
  const DeviceTensor weight(ConstTensor(t.weight.view()));
  const DeviceTensor rstd(ConstTensor(t.rstd.view()));
  const DeviceTensor cos(ConstTensor(t.cos.view()));
  const DeviceTensor sin(ConstTensor(t.sin.view()));
  NormRopePoolArgs args = t.args(plan, extras);
  args.x = x.view();
  if (!args.pooled.empty()) args.pooled = pooled.view();
  if (!args.weight.empty()) args.weight = weight.view();
  if (!args.rstd.empty()) args.rstd = rstd.view();
  if (!args.cos.empty()) args.cos = cos.view();
  if (!args.sin.empty()) args.sin = sin.view();
  run_on_gpu([&](const Context& c) { return norm_rope_pool(c, args); });
  x.download(t.x.view());
  pooled.download(t.pooled.view());
}

class GpuNormRopePool : public GpuTest {};
VSA_FOR_EACH_GPU_CASE(GpuNormRopePool);

TEST_P(GpuNormRopePool, EveryNorm) {
  VSA_NEEDS_GPU;
  const TilePlan& plan = shape().q_plan;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    for (const NormRopePoolExtras& extras : norm_rope_pool_extras()) {
      SCOPED_TRACE(static_cast<int>(extras.norm));
      expect_norm_rope_pool(like_q(dtype, 3), plan, extras,
                            [&](NormRopePoolTensors& t) { run_there(t, plan, extras); });
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
