// Positions: 3-D RoPE, patches, and the timestep embedding.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/nn/patch.h"
#include "runtime/nn/rope.h"
#include "runtime/nn/timestep.h"
#include "tests/runtime_support/arrays.h"

namespace vsa::nn {
namespace {

TEST(Rope, W05_SplitsTheHeadAmongTheAxes) {
  EXPECT_EQ(rope_split(128), (std::array<int64_t, 3>{44, 42, 42}));
  EXPECT_EQ(rope_split(64), (std::array<int64_t, 3>{24, 20, 20}));
  EXPECT_EQ(rope_split(12), (std::array<int64_t, 3>{4, 4, 4}));
}

TEST(Rope, W05_TurnsInterleavedPairsByPosition) {
  constexpr Grid kGrid{3, 4, 5};
  constexpr int64_t kHeads = 2, kDim = 16, kFirst = 7;
  const int64_t rows = kGrid.num_tokens() - kFirst;
  std::vector<float> x = test::normal_f32(rows * kHeads * kDim, 1);
  const std::vector<float> before = x;
  test::Exact want;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t token = kFirst + r;
    // Split 8, 4, 4: pairs 0-3 turn with f, 4-5 with h, 6-7 with w.
    const auto angle = [&](int64_t pair) {
      if (pair < 4) {
        return static_cast<double>(token / 20) *
               std::pow(1e4, -2.0 * static_cast<double>(pair) / 8);
      }
      const int64_t position = pair < 6 ? token / 5 % 4 : token % 5;
      return static_cast<double>(position) *
             std::pow(1e4, -2.0 * static_cast<double>(pair % 2) / 4);
    };
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t pair = 0; pair < kDim / 2; ++pair) {
        const auto at = static_cast<size_t>((r * kHeads + h) * kDim + 2 * pair);
        const double a = before[at], b = before[at + 1];
        const double c = std::cos(angle(pair)), s = std::sin(angle(pair));
        want.add(a * c - b * s, std::abs(a) + std::abs(b));
        want.add(a * s + b * c, std::abs(a) + std::abs(b));
      }
    }
  }
  Rope(kGrid, kDim).apply(x.data(), kFirst, rows, kHeads);
  test::expect_rounded(x, want, 3.0);
}

TEST(Timestep, W04_CosinesComeFirst) {
  std::vector<float> out(8);
  timestep_embedding(250.5F, out);
  for (size_t j = 0; j < 4; ++j) {
    const double phase = 250.5 * std::pow(1e4, -static_cast<double>(j) / 4);
    // The phase is rounded to f32: 2^-24 of 250 and the frequency's own error.
    EXPECT_NEAR(out[j], std::cos(phase), 4 * 0x1p-24 * phase + 1e-7) << j;
    EXPECT_NEAR(out[4 + j], std::sin(phase), 4 * 0x1p-24 * phase + 1e-7) << j;
  }
  timestep_embedding(0.0F, out);
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(Timestep, W09_IsNotTruncated) {
  std::vector<float> whole(8), fraction(8);
  timestep_embedding(757.0F, whole);
  timestep_embedding(757.25F, fraction);
  EXPECT_GT(std::abs(whole[4] - fraction[4]), 0.1F);
}

TEST(Patch, ColumnsRunOverChannelFrameRowColumn) {
  const PatchLayout layout{.channels = 2, .grid = {2, 1, 3}, .patch = {1, 2, 2}};
  // Video [2, 2, 2, 6]; each value is its own index.
  std::vector<float> video(2 * 2 * 2 * 6);
  std::iota(video.begin(), video.end(), 0.0F);
  std::vector<float> row(static_cast<size_t>(layout.width()));
  patchify(layout, video.data(), 4, 5, row.data());  // frame 1, patch 1: columns 2 and 3
  EXPECT_EQ(row, (std::vector<float>{14, 15, 20, 21, 38, 39, 44, 45}));
}

TEST(Patch, OutputColumnsHaveTheChannelFastest) {
  const PatchLayout layout{.channels = 2, .grid = {2, 1, 3}, .patch = {1, 2, 2}};
  std::vector<float> video(2 * 2 * 2 * 6, -1.0F);
  const std::vector<float> row{0, 1, 2, 3, 4, 5, 6, 7};  // (h, w, c)
  unpatchify(layout, row.data(), 4, 5, video.data());
  EXPECT_EQ(video[14], 0);  // h 0, w 0, c 0
  EXPECT_EQ(video[38], 1);  // c 1
  EXPECT_EQ(video[15], 2);  // w 1
  EXPECT_EQ(video[45], 7);
  EXPECT_EQ(std::count(video.begin(), video.end(), -1.0F), 48 - 8);
}

}  // namespace
}  // namespace vsa::nn
