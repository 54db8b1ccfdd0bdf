// The shapes that every stage of the CUDA backend is tested on.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "tests/gpu/run_gpu.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test::gpu {

inline constexpr Context kReference{.backend = BackendId::kReference};
inline constexpr DType kTokenDtypes[] = {DType::kBF16, DType::kF16};

struct GpuCase {
  std::string name;
  Heads heads;
  TilePlan q_plan, kv_plan;
  Order order;
};
inline std::ostream& operator<<(std::ostream& out, const GpuCase& c) { return out << c.name; }

inline TilePlan grid_plan(Grid grid, TileShape tile) { return TilePlan::grid(grid, tile).value(); }
/// Tiles of one token.
inline TilePlan row_of_tiles(int64_t num_tiles) { return grid_plan({1, 1, num_tiles}, {1, 1, 1}); }
inline TilePlan tiled_plan(std::vector<int32_t> lens, int64_t tile_tokens) {
  return TilePlan::tiled(lens, tile_tokens).value();
}
inline TilePlan curve_plan(Grid grid, const Tiling& tiling, std::vector<int64_t> segments = {}) {
  return TilePlan::packed(segments, grid, tiling).value();
}
/// Every `step`-th token and so on around, in tiles of these lengths.
inline TilePlan scattered_plan(std::vector<int32_t> lens, int32_t step, int64_t tile_tokens) {
  const auto num_tokens = std::accumulate(lens.begin(), lens.end(), int32_t{0});
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < num_tokens; ++i) tokens.push_back(i * step % num_tokens);
  return TilePlan::assigned(tokens, lens, tile_tokens).value();
}
inline TilePlan packed_plan(std::vector<int64_t> segments, Grid grid, TileShape tile) {
  return TilePlan::packed(segments, grid, tile).value();
}

/// Holds what `fine` gave to the reference.
inline void expect_fine(const FineResult& got, const Qkv& in, const ConstLut& lut) {
  const FineResult want = test::run_fine(kReference, as_f64(in), lut);
  const FineTolerance tolerance = fine_tolerance(in, lut);
  expect_close(got.out, want.out, tolerance.out);
  expect_close(got.lse, want.lse, tolerance.lse);
}

/// All kinds of tiles (64, 128, 256 tokens, less, odd numbers), aligned and cut off on every axis,
/// tile order with tiles of any length, packed prefixes, curves and any assignment of tokens, with
/// and without padding; grouped heads; all memory orders.
inline std::vector<GpuCase> gpu_cases() {
  const TileShape cube{4, 4, 4};
  return {
      {"D64_aligned",
       {1, 2, 2, 64},
       grid_plan({8, 8, 8}, cube),
       grid_plan({8, 8, 8}, cube),
       Order::kBshd},
      {"D128_aligned",
       {2, 2, 1, 128},
       grid_plan({4, 8, 8}, cube),
       grid_plan({4, 8, 12}, cube),
       Order::kBhsd},
      {"D64_edges",
       {2, 4, 2, 64},
       grid_plan({5, 6, 7}, cube),
       grid_plan({5, 6, 7}, cube),
       Order::kBshd},
      {"D128_edges",
       {1, 2, 2, 128},
       grid_plan({9, 6, 5}, cube),
       grid_plan({6, 7, 13}, cube),
       Order::kFused},
      {"D128_T2x8x8",
       {1, 2, 1, 128},
       grid_plan({3, 9, 9}, {2, 8, 8}),
       grid_plan({4, 8, 20}, {2, 8, 8}),
       Order::kBhsd},
      {"D64_T4x8x8",
       {1, 2, 2, 64},
       grid_plan({5, 9, 4}, {4, 8, 8}),
       grid_plan({6, 8, 9}, {4, 8, 8}),
       Order::kFused},
      {"D128_T1x16x16",
       {1, 1, 1, 128},
       grid_plan({1, 17, 18}, {1, 16, 16}),
       grid_plan({1, 18, 20}, {1, 16, 16}),
       Order::kBshd},
      {"D64_T3x5x2",
       {1, 4, 2, 64},
       grid_plan({4, 6, 5}, {3, 5, 2}),
       grid_plan({3, 5, 7}, {3, 5, 2}),
       Order::kSliced},
      {"D64_T3x9x9",
       {2, 1, 1, 64},
       grid_plan({4, 9, 11}, {3, 9, 9}),
       grid_plan({3, 10, 9}, {3, 9, 9}),
       Order::kSliced},
      {"D64_T1x1x1",
       {2, 1, 1, 64},
       grid_plan({1, 3, 5}, {1, 1, 1}),
       grid_plan({2, 3, 3}, {1, 1, 1}),
       Order::kBshd},
      {"D128_tiled64",
       {1, 2, 2, 128},
       tiled_plan({64, 1, 0, 37, 64, 5}, 64),
       tiled_plan({7, 64, 63, 0, 16, 33, 8, 48}, 64),
       Order::kBhsd},
      {"D64_tiled128",
       {2, 2, 1, 64},
       tiled_plan({128, 30, 0}, 128),
       tiled_plan({100, 128, 64, 65, 3}, 128),
       Order::kBshd},
      {"D64_tiled100",
       {1, 1, 1, 64},
       tiled_plan({100, 51, 50}, 100),
       tiled_plan({99, 0, 100}, 100),
       Order::kBhsd},
      {"D128_packed",
       {1, 2, 1, 128},
       packed_plan({77, 0, 13}, {5, 6, 7}, cube),
       packed_plan({77, 0, 13}, {5, 6, 7}, cube),
       Order::kBshd},
      {"D64_packed256",
       {2, 2, 2, 64},
       packed_plan({300}, {4, 9, 8}, {4, 8, 8}),
       packed_plan({10, 257}, {4, 9, 8}, {4, 8, 8}),
       Order::kSliced},
      {"D128_gilbert",
       {2, 2, 1, 128},
       curve_plan({5, 6, 7}, {.order = TokenOrder::kGilbert}),
       curve_plan({6, 5, 9}, {.order = TokenOrder::kGilbert}),
       Order::kBshd},
      {"D64_frames128",
       {1, 4, 2, 64},
       curve_plan({5, 9, 7}, {.order = TokenOrder::kGilbertFrames, .tile = {2, 8, 8}}),
       curve_plan({5, 9, 7}, {.order = TokenOrder::kGilbertFrames, .tile = {2, 8, 8}}),
       Order::kFused},
      {"D128_packed_gilbert",
       {1, 2, 2, 128},
       curve_plan({5, 6, 7}, {.order = TokenOrder::kGilbert}, {77, 13}),
       curve_plan({5, 6, 7}, {.order = TokenOrder::kGilbert}, {77, 13}),
       Order::kSliced},
      {"D64_scattered",
       {1, 2, 1, 64},
       scattered_plan({100, 0, 51, 7, 93}, 7, 100),
       scattered_plan({64, 1, 128, 33}, 5, 128),
       Order::kBhsd},
      {"D128_scattered_on_cuboids",
       {1, 2, 2, 128},
       scattered_plan({64, 64, 0, 61}, 11, 64),
       grid_plan({6, 5, 9}, cube),
       Order::kBshd},
      {"D64_compact",
       {2, 2, 2, 64},
       grid_plan({5, 6, 7}, cube).in_compact_order(),
       curve_plan({6, 7, 9}, {.order = TokenOrder::kGilbert}).in_compact_order(),
       Order::kBshd},
  };
}

class GpuTest : public testing::TestWithParam<GpuCase> {
 protected:
  const GpuCase& shape() const { return GetParam(); }
  Qkv qkv(DType dtype, uint64_t seed = 1) const {
    return make_qkv(dtype, shape().heads, shape().q_plan, shape().kv_plan, seed, shape().order);
  }
  TestTensor like_q(DType dtype, uint64_t seed) const {
    return token_tensor(dtype, shape().heads, shape().q_plan, seed, shape().order);
  }
  LutBuffer lut(uint64_t seed = 9) const {
    return random_lut(shape().heads, shape().q_plan.num_tiles(), shape().kv_plan.num_tiles(), seed);
  }
};

inline std::string gpu_case_name(const testing::TestParamInfo<GpuCase>& info) {
  return info.param.name;
}

}  // namespace vsa::test::gpu

#define VSA_FOR_EACH_GPU_CASE(Suite) \
  INSTANTIATE_TEST_SUITE_P(Each, Suite, testing::ValuesIn(gpu_cases()), gpu_case_name)
