// Look-up tables with memory of their own.
#include "vsa/lut.h"

#include <gtest/gtest.h>

namespace vsa {
namespace {

TEST(LutBuffer, StartsEmpty) {
  const LutBuffer buffer({.batch = 2, .num_heads = 3, .num_q_tiles = 4, .pitch = 5});
  const ConstLut lut = buffer.view();
  for (int row = 0; row < 2 * 3 * 4; ++row) EXPECT_EQ(lut.count[row], 0);
  for (int i = 0; i < 2 * 3 * 4 * 5; ++i) EXPECT_EQ(lut.index[i], -1);
}

TEST(LutBuffer, DenseKeepsEveryTileInEveryRow) {
  const LutBuffer buffer =
      LutBuffer::dense({.batch = 2, .num_heads = 3, .num_q_tiles = 4, .pitch = 5});
  const ConstLut lut = buffer.view();
  for (int row = 0; row < 2 * 3 * 4; ++row) {
    EXPECT_EQ(lut.count[row], 5);
    for (int32_t j = 0; j < 5; ++j) EXPECT_EQ(lut.index[row * 5 + j], j) << "row " << row;
  }
}

}  // namespace
}  // namespace vsa
