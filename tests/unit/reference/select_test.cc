// src/reference/select.cc by hand.
#include <gmock/gmock.h>

#include <limits>

#include "src/core/lut_row.h"
#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// What a single row keeps.
std::vector<int32_t> kept(const std::vector<double>& scores, const SelectOptions& options) {
  TestTensor x(DType::kF64, {.seq_len = 1, .head_dim = static_cast<int64_t>(scores.size())});
  x.set_values(scores);
  const LutBuffer lut = run_select(kReference, x, options);
  const auto row = lut_row(lut.view(), 0, 0, 0);
  return {row.begin(), row.end()};
}

TEST(ReferenceSelect, TakesTheBestAndListsThemAscending) {
  EXPECT_THAT(kept({1, 5, 2, 4, 3}, {.topk = 3}), ElementsAre(1, 3, 4));
}

TEST(ReferenceSelect, TiesGoToTheLowerIndex) {
  EXPECT_THAT(kept({1, 2, 2, 2}, {.topk = 2}), ElementsAre(1, 2));
  EXPECT_THAT(kept({-0.0, 0.0, -0.0}, {.topk = 2}), ElementsAre(0, 1));
  EXPECT_THAT(kept({0.0, -0.0, 0.0}, {.topk = 2}), ElementsAre(0, 1));
}

TEST(ReferenceSelect, NanIsBelowMinusInfinity) {
  EXPECT_THAT(kept({kNan, -kInf, 1, kNan, -kInf}, {.topk = 2}), ElementsAre(1, 2));
  EXPECT_THAT(kept({kNan, -kInf, 1, kNan, -kInf}, {.topk = 4}), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(kept({kNan, kNan, kNan}, {.topk = 2}), ElementsAre(0, 1));
}

TEST(ReferenceSelect, ForcedColumnsComeOnTopOfTopk) {
  const std::vector<int32_t> forced{0, 3};
  EXPECT_THAT(kept({1, 5, 2, 4, 3}, {.topk = 1, .forced_columns = forced}), ElementsAre(0, 1, 3));
  EXPECT_THAT(kept({1, 5, 2, 4, 3}, {.topk = 5, .forced_columns = forced}),
              ElementsAre(0, 1, 2, 3, 4));
}

TEST(ReferenceSelect, DenseRowsKeepAllAndTailsAreMinusOne) {
  const std::vector<int32_t> dense{1};
  const TestTensor scores = normal_tensor(DType::kF64, {1, 1, 3, 4}, 1);
  const LutBuffer lut = run_select(kReference, scores, {.topk = 1, .dense_rows = dense});
  EXPECT_THAT(lut_row(lut.view(), 0, 0, 1), ElementsAre(0, 1, 2, 3));
  for (const int64_t row : {0, 2}) {
    EXPECT_EQ(lut.view().count[row], 1);
    for (int64_t slot = 1; slot < 4; ++slot) EXPECT_EQ(lut.view().index[row * 4 + slot], -1);
  }
}

}  // namespace
}  // namespace vsa::test
