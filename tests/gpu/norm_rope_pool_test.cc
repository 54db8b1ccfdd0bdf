// Parity of norm_rope_pool of the CUDA backend with the fp64 reference.
#include "vsa/norm_rope_pool.h"

#include <cmath>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

class GpuNormRopePool : public GpuTest {
 protected:
  /// What may be given beside x, in f32.
  struct Extras {
    NormOver norm;
    bool weight, rstd, angles, pooled;
  };
  struct Result {
    TestTensor x, pooled;
  };

  const TilePlan& plan() const { return shape().q_plan; }
  int64_t num_heads() const { return shape().heads.num_heads; }
  int64_t head_dim() const { return shape().heads.head_dim; }
  Dims pooled_dims() const {
    return {shape().heads.batch, num_heads(), plan().num_tiles(), head_dim()};
  }
  TestTensor weight() const {
    return normal_tensor(DType::kF32, {1, num_heads(), 1, head_dim()}, 7);
  }
  TestTensor rstd(NormOver norm) const {
    return normal_tensor(DType::kF32,
                         {shape().heads.batch, norm == NormOver::kHead ? num_heads() : 1,
                          plan().seq_len(), 1},
                         8)
        .map([](double r) { return std::abs(r) + 0.5; })
        .as(DType::kF32);
  }
  TestTensor angles(double (*f)(double)) const {
    return normal_tensor(DType::kF32, {1, 1, plan().seq_len(), head_dim() / 2}, 9)
        .map(f)
        .as(DType::kF32);
  }

  Result on_gpu(const TestTensor& in, const Extras& extras) const {
    TestTensor x = in;
    TestTensor pooled(DType::kF32, pooled_dims());
    const DeviceTensor there(ConstTensor(x.view()));
    const DeviceTensor w(weight().view());
    const DeviceTensor r(rstd(extras.norm).view());
    const DeviceTensor cos(angles(std::cos).view());
    const DeviceTensor sin(angles(std::sin).view());
    const DeviceTensor means(ConstTensor(pooled.view()));
    run_on_gpu([&](const Context& c) {
      return norm_rope_pool(c, {.x = there.view(),
                                .plan = &plan(),
                                .norm = extras.norm,
                                .weight = extras.weight ? ConstTensor(w.view()) : ConstTensor{},
                                .rstd = extras.rstd ? ConstTensor(r.view()) : ConstTensor{},
                                .cos = extras.angles ? ConstTensor(cos.view()) : ConstTensor{},
                                .sin = extras.angles ? ConstTensor(sin.view()) : ConstTensor{},
                                .pooled = extras.pooled ? means.view() : Tensor{}});
    });
    there.download(x.view());
    means.download(pooled.view());
    EXPECT_TRUE(x.guards_intact()) << "memory between rows was written";
    return {.x = std::move(x), .pooled = std::move(pooled)};
  }

  Result on_reference(const TestTensor& in, const Extras& extras) const {
    TestTensor x = in.as(DType::kF64);
    TestTensor pooled(DType::kF64, pooled_dims());
    const TestTensor w = weight().as(DType::kF64);
    const TestTensor r = rstd(extras.norm).as(DType::kF64);
    const TestTensor cos = angles(std::cos).as(DType::kF64);
    const TestTensor sin = angles(std::sin).as(DType::kF64);
    throw_if_error(norm_rope_pool(kReference, {.x = x.view(),
                                               .plan = &plan(),
                                               .norm = extras.norm,
                                               .weight = extras.weight ? w.view() : ConstTensor{},
                                               .rstd = extras.rstd ? r.view() : ConstTensor{},
                                               .cos = extras.angles ? cos.view() : ConstTensor{},
                                               .sin = extras.angles ? sin.view() : ConstTensor{},
                                               .pooled = pooled.view()}));
    return {.x = std::move(x), .pooled = std::move(pooled)};
  }

  void expect_padding_untouched(TestTensor after, TestTensor before) const {
    for (int64_t i = 0; i < plan().num_tiles(); ++i) {
      for (const int32_t s : plan().tokens(i)) {
        for (int64_t b = 0; b < shape().heads.batch; ++b) {
          for (int64_t h = 0; h < num_heads(); ++h) {
            after.set_row(b, h, s, 0.0);
            before.set_row(b, h, s, 0.0);
          }
        }
      }
    }
    EXPECT_TRUE(same_bits(after, before)) << "positions of no tile were written";
  }

  /// One rounding to the dtype, and in fp32 a sum of all squares, its root, two products and a
  /// rotation, relative to |a| + |b| of a normalised pair (a, b): no angle makes more of it. The
  /// mean adds a sum over the tile.
  void expect_right(DType dtype, const Extras& extras) const {
    const TestTensor in = like_q(dtype, 3);
    const Result got = on_gpu(in, extras);
    const Result want = on_reference(in, extras);
    Extras unturned = extras;
    unturned.angles = false;
    TestTensor size = on_reference(in, unturned).x;
    for (int64_t b = 0; b < shape().heads.batch; ++b) {
      for (int64_t h = 0; h < num_heads(); ++h) {
        for (int64_t s = 0; s < plan().seq_len(); ++s) {
          for (int64_t d = 0; d < head_dim(); d += 2) {
            const double both = std::abs(size.at(b, h, s, d)) + std::abs(size.at(b, h, s, d + 1));
            size.set(b, h, s, d, both);
            size.set(b, h, s, d + 1, both);
          }
        }
      }
    }
    const double terms = static_cast<double>(num_heads() * head_dim());
    const double relative = eps(dtype) / 2.0 + eps(DType::kF32) * (terms + 16.0);
    // Below the normal numbers of f16 rounding is absolute.
    const double least = dtype == DType::kF16 ? std::ldexp(1.0, -25) : 0.0;
    const auto bounds = [&](const TestTensor& magnitude, double factor) {
      Tolerance tolerance{.bound = magnitude.values(), .origin = "|a| + |b| of a pair"};
      for (double& bound : tolerance.bound) bound = factor * bound + least + 1e-30;
      return tolerance;
    };
    TestTensor x = got.x.as(DType::kF64);
    TestTensor wanted = want.x;
    fill_padding(x, plan(), 0.0);
    fill_padding(wanted, plan(), 0.0);
    fill_padding(size, plan(), 0.0);
    expect_close(x, wanted, bounds(size, relative));
    expect_padding_untouched(got.x, in);
    if (!extras.pooled) return;
    const double tile = static_cast<double>(plan().tile_tokens());
    expect_close(
        got.pooled, want.pooled,
        bounds(test::run_pool(kReference, size, plan()), relative + eps(DType::kF32) * tile));
  }
};
VSA_FOR_EACH_GPU_CASE(GpuNormRopePool);

TEST_P(GpuNormRopePool, EveryNorm) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    for (const NormOver norm : {NormOver::kHead, NormOver::kAllHeads}) {
      SCOPED_TRACE(static_cast<int>(norm));
      expect_right(dtype,
                   {.norm = norm, .weight = true, .rstd = false, .angles = true, .pooled = true});
      expect_right(dtype,
                   {.norm = norm, .weight = true, .rstd = true, .angles = true, .pooled = true});
    }
  }
}

TEST_P(GpuNormRopePool, PartsLeftOut) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    expect_right(dtype, {.norm = NormOver::kNothing,
                         .weight = false,
                         .rstd = false,
                         .angles = true,
                         .pooled = true});
    expect_right(dtype, {.norm = NormOver::kAllHeads,
                         .weight = false,
                         .rstd = false,
                         .angles = false,
                         .pooled = false});
  }
}

}  // namespace
}  // namespace vsa::test::gpu
