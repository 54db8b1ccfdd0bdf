// src/reference/tile.cc by hand.
#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

using Values = std::vector<double>;

TEST(ReferenceTile, BringsTilesTogetherAndPadsWithZeros) {
  const TestTensor x = rows_of({10, 11, 12, 13, 14, 15, 16, 17, 18});
  EXPECT_EQ(column(run_tile(kReference, x, small_plan())),
            (Values{10, 11, 13, 14, 12, 15, 0, 0, 16, 17, 0, 0, 18, 0, 0, 0}));
}

TEST(ReferenceTile, UntileUndoesItWithoutReadingPadding) {
  const double nan = std::nan("");
  const TestTensor tiled =
      rows_of({10, 11, 13, 14, 12, 15, nan, nan, 16, 17, nan, nan, 18, nan, nan, nan});
  EXPECT_EQ(column(run_untile(kReference, tiled, small_plan())),
            (Values{10, 11, 12, 13, 14, 15, 16, 17, 18}));
}

TEST(ReferenceTile, PositionsOfNoTileComeOutAsZero) {
  const std::vector<int32_t> tile_len{1, 0, 2};
  const TilePlan plan = TilePlan::tiled(tile_len, 2).value();
  const TestTensor x = rows_of({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(column(run_tile(kReference, x, plan)), (Values{1, 0, 0, 0, 5, 6}));
  EXPECT_EQ(column(run_untile(kReference, x, plan)), (Values{1, 0, 0, 0, 5, 6}));
}

}  // namespace
}  // namespace vsa::test
