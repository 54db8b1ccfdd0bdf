// The shared memory of the backward fine kernels, and positions in their rings.
#include "src/cuda/fine/sm90/fine_backward_params.h"

#include <gtest/gtest.h>

namespace vsa::cuda::sm90 {
namespace {

TEST(RingSlot, VisitsEveryStageAndFlipsTheParityAfterTheLast) {
  RingSlot<3> slot;
  for (uint32_t use = 0; use < 20; ++use) {
    EXPECT_EQ(slot.idx(), use % 3);
    EXPECT_EQ(slot.parity(), use / 3 % 2);
    slot.advance();
  }
}

template <class Smem>
void expect_divided() {
  constexpr size_t kMost = 227 << 10;  // of a CTA
  EXPECT_LE(sizeof(Smem), kMost);
  // The pattern of a swizzled buffer starts at a multiple of 1 KiB; bulk copies need 16 bytes.
  EXPECT_EQ(sizeof(typename Smem::Buffers) % 1024, 0U);
  EXPECT_EQ(offsetof(Smem, buffers), 0U);
  EXPECT_EQ(offsetof(Smem, stream) % 16, 0U);
  EXPECT_EQ(sizeof(typename Smem::Stream) % 16, 0U);
  EXPECT_EQ(offsetof(typename Smem::Stream, minus_lse_log2) % 16, 0U);
  EXPECT_EQ(offsetof(typename Smem::Stream, delta) % 16, 0U);
}

TEST(BackwardSmem, FitsAndIsAligned) {
  expect_divided<BackwardSmem<128, 1>>();
  expect_divided<BackwardSmem<128, 2>>();
  expect_divided<BackwardSmem<64, 1>>();
  expect_divided<BackwardSmem<64, 2>>();
}

TEST(QueryStatistics, OfNoTokenGiveProbabilitiesOfZero) {
  const QueryStatistics empty = QueryStatistics::empty();
  for (int i = 0; i < kBlockTokens; ++i) {
    EXPECT_EQ(empty.minus_lse_log2[i], kMinusInfinity);
    EXPECT_EQ(empty.delta[i], 0.0F);
  }
  // Bulk copies of a multiple of 8 rows of either.
  EXPECT_EQ(8 * sizeof(empty.delta[0]) % 16, 0U);
  EXPECT_EQ(offsetof(QueryStatistics, delta) % 16, 0U);
  EXPECT_EQ(alignof(QueryStatistics) % 16, 0U);
}

}  // namespace
}  // namespace vsa::cuda::sm90
