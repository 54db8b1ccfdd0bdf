// The forward fine kernel computes probabilities before it knows the maxima of their scores, and
// recomputes them where the maxima grew too much (sm90/fine_recompute.h). The result is correct for
// every way in which maxima grow, and its bits do not depend on other rows.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kBlock = 64;  // tokens

/// Scores grow along the sequence: that of a row and a key is multiplied by rows[row % 64 / 16] and
/// by 1 for the first 64 keys, 2 for the next, ...
void let_grow(Qkv& in, const std::array<double, 4>& rows) {
  const Dims dims = in.q.dims();
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t s = 0; s < dims.seq_len; ++s) {
      for (int64_t d = 0; d < dims.head_dim; ++d) {
        const double row = rows[static_cast<size_t>(s % kBlock / 16)];
        const auto key = static_cast<double>(1 + s / kBlock);
        in.q.set(b, 0, s, d, row * in.q.at(b, 0, s, d));
        in.k.set(b, 0, s, d, key * in.k.at(b, 0, s, d));
      }
    }
  }
}

/// Tiles are runs of 64 tokens, the last may be shorter: tile t has tokens 64 t and following.
TilePlan runs(int64_t seq_len) { return grid_plan({1, 1, seq_len}, {1, 1, kBlock}); }

/// With all tiles kept. Scores reach some hundreds, of which an ulp is 2^-15 and exp makes a share
/// of.
void expect_as_reference(const Qkv& in) {
  const int64_t n = in.q_plan.num_tiles();
  const LutBuffer table = full_lut(1, 1, n, n);
  const FineResult got = gpu::run_fine(in, table.view());
  const FineResult want = test::run_fine(kReference, as_f64(in), table.view());
  EXPECT_LT(relative_l2(got.out, want.out), 0.01);
  EXPECT_LT(relative_l2(got.lse, want.lse), 1e-5);
}

/// Scores grow along the sequence, but not in all rows of a block and not in all of its warps: in
/// query rows from 16 to 63 of every 64, by far more than what is let pass.
TEST(GpuMaxima, GrowInSomeRows) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      // An odd and an even number of steps, a short one last.
      for (const int64_t seq_len : {8 * kBlock + 40, 7 * kBlock + 40}) {
        for (const float sign : {1.0F, -1.0F}) {
          SCOPED_TRACE(
              fmt::format("{} {} {} {}", head_dim, static_cast<int>(dtype), seq_len, sign));
          const TilePlan plan = runs(seq_len);
          Qkv in = make_qkv(dtype, {1, 1, 1, head_dim}, plan, plan, 1);
          let_grow(in, {0.01, 1.0, 4.0, 12.0});
          in.scale = sign * default_scale(head_dim);
          expect_as_reference(in);
        }
      }
    }
  }
}

/// Tiles of 40 tokens: steps in the middle are short, too.
TEST(GpuMaxima, GrowOverShortSteps) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    const TilePlan plan = grid_plan({1, 1, 400}, {1, 1, 40});
    Qkv in = make_qkv(DType::kBF16, {1, 1, 1, head_dim}, plan, plan, 1);
    let_grow(in, {1.0, 4.0, 12.0, 0.01});
    expect_as_reference(in);
  }
}

/// All scores but the first three tiles' are 2 above them: probabilities relative to the first
/// maxima are large in many columns, and are let pass.
TEST(GpuMaxima, ManyScoresALittleAboveTheFirst) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    const TilePlan plan = runs(11 * kBlock);
    Qkv in = make_qkv(DType::kBF16, {1, 1, 1, head_dim}, plan, plan, 1);
    const double scale = default_scale(head_dim);
    for (int64_t s = 0; s < plan.seq_len(); ++s) {
      in.q.set(0, 0, s, 0, 8.0);
      in.k.set(0, 0, s, 0, s < 3 * kBlock ? 0.0 : 2.0 / (8.0 * scale));
    }
    const int64_t n = plan.num_tiles();
    const LutBuffer table = full_lut(1, 1, n, n);
    expect_fine(gpu::run_fine(in, table.view()), in, table.view());
  }
}

/// The first tiles' scores are all -inf: there is no maximum until later.
TEST(GpuMaxima, NoneInTheFirstTiles) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t num_tiles : {6, 7}) {
      SCOPED_TRACE(fmt::format("{} {}", head_dim, num_tiles));
      const TilePlan plan = runs(num_tiles * kBlock);
      Qkv in = make_qkv(DType::kBF16, {1, 1, 1, head_dim}, plan, plan, 1);
      for (int64_t s = 0; s < plan.seq_len(); ++s) {
        in.q.set(0, 0, s, 0, 1.0);
        if (s < 3 * kBlock) in.k.set(0, 0, s, 0, -kInf);
      }
      expect_as_reference(in);
    }
  }
}

/// A short block's rows do not see what lay in shared memory beside them: not in whether their warp
/// makes scores again, either. (That another kernel's values stay there is likely, not certain; the
/// test after this has them from its own launch.)
TEST(GpuMaxima, ShortBlocksDoNotSeeWhatWasThereBefore) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    const TilePlan plan = grid_plan({5, 9, 13}, {4, 4, 4});
    Qkv in = make_qkv(DType::kBF16, {1, 4, 4, head_dim}, plan, plan, 1);
    const int64_t n = plan.num_tiles();
    const LutBuffer table = random_lut({1, 4, 4, head_dim}, n, n, 4);
    // Blocks of queries for every consumer of the device, twice.
    const TilePlan wide = runs(64 * kBlock);
    const Heads many{1, 16, 16, head_dim};
    Qkv before = make_qkv(DType::kBF16, many, wide, wide, 2);
    const LutBuffer wide_table = random_lut(many, 64, 64, 5);
    FineResult first;
    for (const double x : {0.0, 1.0, 300.0, -kInf, std::numeric_limits<double>::quiet_NaN()}) {
      SCOPED_TRACE(x);
      before.q = constant_tensor(DType::kBF16, before.q.dims(), x);
      gpu::run_fine(before, wide_table.view());
      const FineResult got = gpu::run_fine(in, table.view());
      if (x == 0.0) {
        first = got;
        continue;
      }
      EXPECT_TRUE(same_bits(got.out, first.out));
      EXPECT_TRUE(same_bits(got.lse, first.lse));
    }
  }
}

/// T19: an item of a batch gives the bits it gives alone, where blocks are short and maxima grow.
TEST(GpuMaxima, T19_ShortBlocksOfABatchAreIndependent) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    const TilePlan plan = grid_plan({5, 9, 13}, {4, 4, 4});
    const Heads heads{64, 1, 1, head_dim};  // several items for every consumer
    Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
    let_grow(in, {0.01, 1.0, 4.0, 12.0});
    const int64_t n = plan.num_tiles();
    const FineResult all = gpu::run_fine(in, full_lut(64, 1, n, n).view());
    for (const int64_t b : {0, 31, 63}) {
      const Qkv alone{.q = batch_item(in.q, b),
                      .k = batch_item(in.k, b),
                      .v = batch_item(in.v, b),
                      .q_plan = plan,
                      .kv_plan = plan};
      const FineResult one = gpu::run_fine(alone, full_lut(1, 1, n, n).view());
      EXPECT_TRUE(same_bits(batch_item(all.out, b), one.out));
      EXPECT_TRUE(same_bits(batch_item(all.lse, b), one.lse));
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
