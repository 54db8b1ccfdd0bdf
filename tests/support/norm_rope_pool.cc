#include "tests/support/norm_rope_pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

void clear_tokens(TestTensor& x, const TilePlan& plan) {
  for (int64_t i = 0; i < plan.num_tiles(); ++i) {
    for (const int32_t s : plan.tokens(i)) {
      for (int64_t b = 0; b < x.dims().batch; ++b) {
        for (int64_t h = 0; h < x.dims().num_heads; ++h) x.set_row(b, h, s, 0.0);
      }
    }
  }
}

NormRopePoolTensors on_reference(const TestTensor& x, const TilePlan& plan,
                                 const NormRopePoolExtras& extras) {
  NormRopePoolTensors t = norm_rope_pool_tensors(x, plan, extras.norm);
  for (TestTensor* each : {&t.x, &t.pooled, &t.weight, &t.rstd, &t.cos, &t.sin}) {
    *each = each->as(DType::kF64);
  }
  throw_if_error(norm_rope_pool(kReference, t.args(plan, extras)));
  return t;
}

/// |a| + |b| of each pair (a, b) after the norm.
TestTensor pair_sizes(const TestTensor& in, const TilePlan& plan, NormRopePoolExtras extras) {
  extras.angles = false;
  TestTensor size = on_reference(in, plan, extras).x;
  const auto& [batch, num_heads, seq_len, head_dim] = size.dims();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < num_heads; ++h) {
      for (int64_t s = 0; s < seq_len; ++s) {
        for (int64_t d = 0; d < head_dim; d += 2) {
          const double both = std::abs(size.at(b, h, s, d)) + std::abs(size.at(b, h, s, d + 1));
          size.set(b, h, s, d, both);
          size.set(b, h, s, d + 1, both);
        }
      }
    }
  }
  fill_padding(size, plan, 0.0);
  return size;
}

}  // namespace

NormRopePoolArgs NormRopePoolTensors::args(const TilePlan& plan, const NormRopePoolExtras& extras) {
  return {.x = x.view(),
          .plan = &plan,
          .norm = extras.norm,
          .eps = 0.125F,  // much, so that it counts
          .weight = extras.weight ? ConstTensor(weight.view()) : ConstTensor{},
          .rstd = extras.rstd ? ConstTensor(rstd.view()) : ConstTensor{},
          .cos = extras.angles ? ConstTensor(cos.view()) : ConstTensor{},
          .sin = extras.angles ? ConstTensor(sin.view()) : ConstTensor{},
          .pooled = extras.pooled ? pooled.view() : Tensor{}};
}

NormRopePoolTensors norm_rope_pool_tensors(const TestTensor& x, const TilePlan& plan,
                                           NormOver norm) {
  const auto& [batch, num_heads, seq_len, head_dim] = x.dims();
  const auto f32 = [](const Dims& dims, uint64_t seed, double (*f)(double)) {
    return normal_tensor(DType::kF32, dims, seed).map(f).as(DType::kF32);
  };
  const Dims angles{1, 1, seq_len, head_dim / 2};
  const int64_t rstd_heads = norm == NormOver::kHead ? num_heads : 1;
  return {
      .x = x,
      .pooled = {DType::kF32, {batch, num_heads, plan.num_tiles(), head_dim}},
      .weight = normal_tensor(DType::kF32, {1, num_heads, 1, head_dim}, 7),
      .rstd = f32({batch, rstd_heads, seq_len, 1}, 8, [](double r) { return std::abs(r) + 0.5; }),
      .cos = f32(angles, 9, [](double a) { return std::cos(a); }),
      .sin = f32(angles, 9, [](double a) { return std::sin(a); })};
}

/// The bound counts one rounding to the dtype and, in fp32, a sum of all squares, its root, two
/// products and a rotation. It is relative to |a| + |b| of a normalised pair (a, b), which no
/// rotation exceeds. The mean adds a sum over the tile.
void expect_norm_rope_pool(const TestTensor& in, const TilePlan& plan,
                           const NormRopePoolExtras& extras, const RunNormRopePool& run) {
  NormRopePoolTensors got = norm_rope_pool_tensors(in, plan, extras.norm);
  run(got);
  EXPECT_TRUE(got.x.guards_intact()) << "memory between rows was written";
  const NormRopePoolTensors want = on_reference(in, plan, extras);
  const TestTensor size = pair_sizes(in, plan, extras);
  const DType dtype = in.dtype();
  const double terms = static_cast<double>(in.dims().num_heads * in.dims().head_dim);
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
  fill_padding(x, plan, 0.0);
  fill_padding(wanted, plan, 0.0);
  expect_close(x, wanted, bounds(size, relative));
  TestTensor after = got.x;
  TestTensor before = in;
  clear_tokens(after, plan);
  clear_tokens(before, plan);
  EXPECT_TRUE(same_bits(after, before)) << "positions of no tile were written";
  if (!extras.pooled) return;
  const double tile = static_cast<double>(plan.tile_tokens());
  expect_close(got.pooled, want.pooled,
               bounds(run_pool(kReference, size, plan), relative + eps(DType::kF32) * tile));
}

std::vector<NormRopePoolExtras> norm_rope_pool_extras() {
  std::vector<NormRopePoolExtras> all;
  for (const NormOver norm : {NormOver::kHead, NormOver::kAllHeads}) {
    for (const bool rstd : {false, true}) {
      all.push_back({.norm = norm, .weight = true, .rstd = rstd, .angles = true, .pooled = true});
    }
  }
  all.push_back(
      {.norm = NormOver::kNothing, .weight = false, .rstd = false, .angles = true, .pooled = true});
  all.push_back({.norm = NormOver::kAllHeads,
                 .weight = false,
                 .rstd = false,
                 .angles = false,
                 .pooled = false});
  return all;
}

}  // namespace vsa::test
