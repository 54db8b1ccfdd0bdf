// How residual_norm divides a token among threads, and which widths it refuses.
#include "src/cuda/residual_norm/residual_norm.h"

#include <gtest/gtest.h>

#include <bit>

#include "src/cuda/stages.h"

namespace vsa::cuda {
namespace {

TEST(TokenSplit, EveryPieceHasAThreadAndNoWarpIsIdle) {
  for (int64_t width = kPieceElements; width <= kMaxTokenWidth; width += kPieceElements) {
    const TokenSplit split = token_split(width);
    EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(split.warps))) << width;
    EXPECT_LE(split.warps, kMaxTokenWarps) << width;
    EXPECT_LE(split.pieces, kMaxTokenPieces) << width;
    const int64_t round = int64_t{32} * split.warps * kPieceElements;  // a piece for each thread
    EXPECT_GE(round * split.pieces, width);
    EXPECT_LT(round * (split.pieces - 1), width) << "a piece that no thread has";
    if (split.warps == 1) continue;
    EXPECT_LT(round / 2 * kMaxTokenPieces, width) << "half as many warps suffice";
  }
}

TEST(TokenSplit, WidthsOfModels) {
  const auto is = [](int64_t width, int warps, int pieces) {
    const TokenSplit split = token_split(width);
    EXPECT_EQ(split.warps, warps) << width;
    EXPECT_EQ(split.pieces, pieces) << width;
  };
  is(64, 1, 1);
  is(1536, 2, 3);  // Wan 1.3B
  is(3072, 4, 3);  // HunyuanVideo
  is(5120, 8, 3);  // Wan 14B
  is(8192, 8, 4);
}

TEST(ResidualNormCuda, WiderTokensAreRefusedByName) {
  float data = 0.0F;
  int64_t size = -1;
  Context query{.backend = BackendId::kCuda};
  query.workspace_query = &size;
  const auto with_heads = [&](int64_t num_heads) {
    const Tensor x = Tensor::bshd(&data, DType::kBF16, {1, num_heads, 4, 128});
    return cuda::residual_norm(query, ResidualNormArgs{.x = x, .out = x});
  };
  EXPECT_TRUE(with_heads(64).ok());
  EXPECT_EQ(size, 0) << "it needs no workspace";
  const Status status = with_heads(65);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "[residual_norm] x: expected at most 8192 elements in all heads of a token on the cuda "
            "backend, got 65 heads of 128; the cpu backend takes any number of heads");
}

}  // namespace
}  // namespace vsa::cuda
