// Numbers of tiles and heads at which the kernels of the small stages branch.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/selection.h"
#include "tests/support/magnitude.h"

namespace vsa::test::gpu {
namespace {

// --- select: 512, 768, 1536 and 2048 tiles fill the registers of one of its kernels
// ----------------

class GpuSelectSizes : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Tiles, GpuSelectSizes,
                         testing::Values(1, 2, 31, 32, 33, 511, 512, 513, 768, 769, 1440, 1536,
                                         1537, 2048, 2049, 4097, 5610));  // T10: the last

void expect_same_selection(const TestTensor& scores) {
  const int64_t most = scores.dims().head_dim;
  gpu::expect_same_selection(scores, {1, most / 8 + 1, most - most / 3, most}, 2);
}

TEST_P(GpuSelectSizes, DistinctScores) {
  VSA_NEEDS_GPU;
  expect_same_selection(normal_tensor(DType::kF32, {1, 2, 5, GetParam()}, 6));
}

/// Few values, so that the last kept is one of many; rows of one value, of NaN, of -inf.
TEST_P(GpuSelectSizes, TiesAndNan) {
  VSA_NEEDS_GPU;
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, 0.5, -1.0, 0.5, -inf, std::nan(""), inf, 0.5, -1e-40, 1e-40};
  TestTensor scores(DType::kF32, {1, 1, 5, GetParam()});
  for (int64_t j = 0; j < GetParam(); ++j) {
    scores.set(0, 0, 0, j, special[static_cast<size_t>(j * j + j / 7) % std::size(special)]);
    scores.set(0, 0, 1, j, -3.25);
    scores.set(0, 0, 2, j, std::nan(""));
    scores.set(0, 0, 3, j, j % 5 == 0 ? std::nan("") : -inf);
    scores.set(0, 0, 4, j, j % 2 == 0 ? 1.0 : std::nextafter(1.0F, 2.0F));
  }
  expect_same_selection(scores);
}

// --- coarse: CTAs of 64 columns, 32, 64 or 128 rows; rows of scores at any multiple of 4 bytes
// ------

struct CoarseSize {
  int64_t q_tiles, kv_tiles, head_dim;
  int64_t num_heads = 2;  // one of keys

  TestTensor q(bool few_bits) const {
    const Dims dims{1, num_heads, q_tiles, head_dim};
    return few_bits ? few_bits_tensor(DType::kF32, dims, 1) : normal_tensor(DType::kF32, dims, 1);
  }
  TestTensor k(bool few_bits) const {
    const Dims dims{1, 1, kv_tiles, head_dim};
    return few_bits ? few_bits_tensor(DType::kF32, dims, 2) : normal_tensor(DType::kF32, dims, 2);
  }
  Qkv pooled(bool few_bits) const {
    return {.q = q(few_bits),
            .k = k(few_bits),
            .v = normal_tensor(DType::kF32, {1, 1, kv_tiles, head_dim}, 3),
            .q_plan = row_of_tiles(q_tiles),
            .kv_plan = row_of_tiles(kv_tiles)};
  }
};

class GpuCoarseSizes : public testing::TestWithParam<CoarseSize> {};
INSTANTIATE_TEST_SUITE_P(Tiles, GpuCoarseSizes,
                         testing::Values(CoarseSize{1, 1, 128}, CoarseSize{1, 64, 64},
                                         CoarseSize{31, 65, 64}, CoarseSize{33, 63, 128},
                                         CoarseSize{64, 128, 128}, CoarseSize{65, 127, 128},
                                         CoarseSize{129, 514, 64}, CoarseSize{700, 1441, 128},
                                         CoarseSize{1443, 96, 64}, CoarseSize{65, 70, 128, 80},
                                         CoarseSize{65, 68, 128, 80},
                                         CoarseSize{33, 131, 64, 200}));

TEST_P(GpuCoarseSizes, AsTheReference) {
  VSA_NEEDS_GPU;
  const Qkv in = GetParam().pooled(false);
  const CoarseResult got = gpu::run_coarse(in);
  const Qkv wide = as_f64(in);
  const CoarseResult want =
      test::run_coarse(kReference, wide.q, wide.k, wide.v, wide.kv_plan, wide.scale);
  const CoarseTolerance tolerance = coarse_tolerance(in);
  expect_close(got.scores, want.scores, tolerance.scores);
  expect_close(got.out, want.out, tolerance.out);
}

TEST_P(GpuCoarseSizes, RoundedAsFastVideo) {
  VSA_NEEDS_GPU;
  const Qkv in = GetParam().pooled(true);
  const CoarseResult got = gpu::run_coarse(in, CoarseRounding::kBf16);
  const Qkv wide = as_f64(in);
  const CoarseResult want = test::run_coarse(kReference, wide.q, wide.k, wide.v, wide.kv_plan,
                                             wide.scale, CoarseRounding::kBf16);
  expect_close(got.scores, want.scores, exact());
  expect_close(got.out, want.out, rounded_coarse_out_tolerance(in));
}

/// T19: a batch item gives the bits it gives alone, however many CTAs its batch takes.
TEST(GpuCoarse, T19_BatchItemsAreIndependent) {
  VSA_NEEDS_GPU;
  constexpr int64_t kTiles = 40;
  const TilePlan plan = row_of_tiles(kTiles);
  const auto pooled = [](uint64_t seed) {
    return normal_tensor(DType::kF32, {100, 1, kTiles, 128}, seed);
  };
  const Qkv in{.q = pooled(1), .k = pooled(2), .v = pooled(3), .q_plan = plan, .kv_plan = plan};
  const CoarseResult all = gpu::run_coarse(in);
  for (const int64_t b : {0, 57, 99}) {
    const CoarseResult alone = gpu::run_coarse({.q = batch_item(in.q, b),
                                                .k = batch_item(in.k, b),
                                                .v = batch_item(in.v, b),
                                                .q_plan = plan,
                                                .kv_plan = plan});
    EXPECT_TRUE(same_bits(batch_item(all.scores, b), alone.scores)) << b;
    EXPECT_TRUE(same_bits(batch_item(all.out, b), alone.out)) << b;
  }
}

/// Scores far apart: all but one of a row's 64 columns underflow, and whole groups of 64 do.
TEST(GpuCoarse, LargeScores) {
  VSA_NEEDS_GPU;
  Qkv in{.q = normal_tensor(DType::kF32, {1, 1, 70, 64}, 1),
         .k = normal_tensor(DType::kF32, {1, 1, 200, 64}, 2),
         .v = normal_tensor(DType::kF32, {1, 1, 200, 64}, 3),
         .q_plan = row_of_tiles(70),
         .kv_plan = row_of_tiles(200)};
  in.scale = 30.0F;
  const CoarseResult got = gpu::run_coarse(in);
  const Qkv wide = as_f64(in);
  const CoarseResult want =
      test::run_coarse(kReference, wide.q, wide.k, wide.v, wide.kv_plan, wide.scale);
  const CoarseTolerance tolerance = coarse_tolerance(in);
  expect_close(got.scores, want.scores, tolerance.scores);
  expect_close(got.out, want.out, tolerance.out);
}

// --- pool: threads of a CTA follow the number of heads
// ----------------------------------------------

class GpuPoolHeads : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Heads, GpuPoolHeads, testing::Values(1, 3, 12, 16, 17, 40));

TEST_P(GpuPoolHeads, AsTheReference) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, {4, 4, 4});  // 1 to 64 tokens a tile
  for (const int64_t head_dim : {64, 128}) {
    const TestTensor x =
        token_tensor(DType::kBF16, {1, GetParam(), GetParam(), head_dim}, plan, 1, Order::kSliced);
    expect_close(gpu::run_pool(x, plan), test::run_pool(kReference, x.as(DType::kF64), plan),
                 pool_tolerance(x, plan));
  }
}

// --- schedule: rows as bits up to 16384 kv tiles of one block, searched beyond
// -----------------------------------

TEST(GpuSchedule, AnyNumberOfKvTiles) {
  VSA_NEEDS_GPU;
  const Heads heads{1, 1, 1, 64};
  for (const int64_t num_kv_tiles : {1, 16384, 16385}) {
    SCOPED_TRACE(num_kv_tiles);
    const TilePlan q_plan = row_of_tiles(9);
    const TilePlan kv_plan = row_of_tiles(num_kv_tiles);
    const Qkv in = make_qkv(DType::kBF16, heads, q_plan, kv_plan, 1);
    // Neighbours share every second of their tiles.
    const int64_t pitch = std::min<int64_t>(num_kv_tiles, 100);
    LutBuffer table({.batch = 1, .num_heads = 1, .num_q_tiles = 9, .pitch = pitch});
    for (int64_t row = 0; row < 9; ++row) {
      table.view().count[row] = static_cast<int32_t>(pitch);
      for (int64_t i = 0; i < pitch; ++i) {
        const int64_t step = num_kv_tiles / pitch;
        table.view().index[row * pitch + i] =
            static_cast<int32_t>(i * step + (i % 2 == 0 || step == 1 ? 0 : row + 1));
      }
    }
    expect_fine(gpu::run_fine(in, table.view()), in, table.view());
  }
}

// --- pairs: windows of 64 query tiles; lists as bits up to 5344 kv tiles of one block

TEST(GpuPairs, AnyNumberOfTiles) {
  VSA_NEEDS_GPU;
  const Heads heads{2, 2, 1, 128};
  for (const int64_t num_q_tiles : {1, 2, 63, 64, 65, 127, 129, 131}) {
    for (const int64_t num_kv_tiles : {1, 33, 200}) {
      SCOPED_TRACE(testing::Message() << num_q_tiles << " x " << num_kv_tiles);
      const Qkv in =
          make_qkv(DType::kBF16, heads, row_of_tiles(num_q_tiles), row_of_tiles(num_kv_tiles), 1);
      const LutBuffer table = random_lut(heads, num_q_tiles, num_kv_tiles, 2);
      expect_fine(gpu::run_fine(in, table.view()), in, table.view());
    }
  }
}

TEST(GpuPairs, AsManyKvTilesAsBitsAndMore) {
  VSA_NEEDS_GPU;
  const Heads heads{1, 1, 1, 128};
  for (const int64_t num_kv_tiles : {5344, 5345}) {
    SCOPED_TRACE(num_kv_tiles);
    const Qkv in = make_qkv(DType::kBF16, heads, row_of_tiles(70), row_of_tiles(num_kv_tiles), 1);
    const LutBuffer table = random_lut(heads, 70, num_kv_tiles, 2);
    expect_close(gpu::run_fine(in, table.view()).out,
                 test::run_fine(kReference, as_f64(in), table.view()).out,
                 fine_tolerance(in, table.view()).out);
  }
}

/// The grid has room for more heads than its second axis could hold.
TEST(GpuPairs, ManyHeads) {
  VSA_NEEDS_GPU;
  const Heads heads{1, 65537, 65537, 128};
  const TilePlan plan = row_of_tiles(1);
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const LutBuffer table = random_lut(heads, 1, 1, 2);
  expect_close(gpu::run_fine(in, table.view()).out,
               test::run_fine(kReference, as_f64(in), table.view()).out,
               fine_tolerance(in, table.view()).out);
}

/// T19: a batch item gives the bits it gives alone, whether its pairs are taken whole or as halves,
/// and whoever takes them: on 132 multiprocessors the first items of many are whole and the last
/// halves, those of one all halves.
TEST(GpuPairs, T19_BatchItemsAreIndependent) {
  VSA_NEEDS_GPU;
  constexpr int64_t kBatch = 6;
  const Heads heads{kBatch, 1, 1, 128};
  const TilePlan plan = row_of_tiles(97);  // 6 * 49 = 2 * 132 + 30 pairs
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const AttentionOptions options{.gate_coarse = Gate::one(), .select = {.topk = 20}};
  const AttentionResult all = gpu::run_attention(in, options, Outputs::kOutOnly);
  for (int64_t b = 0; b < kBatch; ++b) {
    const Qkv alone{.q = batch_item(in.q, b),
                    .k = batch_item(in.k, b),
                    .v = batch_item(in.v, b),
                    .q_plan = plan,
                    .kv_plan = plan};
    EXPECT_TRUE(same_bits(batch_item(all.out, b),
                          gpu::run_attention(alone, options, Outputs::kOutOnly).out))
        << b;
  }
}

}  // namespace
}  // namespace vsa::test::gpu
