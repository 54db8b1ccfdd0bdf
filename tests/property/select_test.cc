// Properties of select: exactly topk tiles a row, in one total order, on every backend.
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/lut_row.h"
#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/problem.h"

namespace vsa::test {
namespace {

class Select : public BackendTest {
 protected:
  /// What one row keeps.
  std::vector<int32_t> kept(const std::vector<double>& row, const SelectOptions& options) const {
    TestTensor scores(DType::kF32, {1, 1, 1, static_cast<int64_t>(row.size())});
    scores.set_values(row);
    const LutBuffer lut = run_select(context(), scores, options);
    const auto tiles = lut_row(lut.view(), 0, 0, 0);
    return {tiles.begin(), tiles.end()};
  }
};
VSA_FOR_EACH_BACKEND(Select);

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// The rule stated once more, as a count: tile j is kept if fewer than topk others beat it.
std::vector<int32_t> by_counting(const std::vector<double>& row, int64_t topk) {
  const auto key = [&](size_t j) { return std::isnan(row[j]) ? -kInf : row[j]; };
  const auto beats = [&](size_t a, size_t b) {
    if (std::isnan(row[a]) != std::isnan(row[b])) return std::isnan(row[b]);
    return key(a) > key(b) || (key(a) == key(b) && a < b);
  };
  std::vector<int32_t> kept;
  for (size_t j = 0; j < row.size(); ++j) {
    int64_t better = 0;
    for (size_t other = 0; other < row.size(); ++other) better += beats(other, j) ? 1 : 0;
    if (better < topk) kept.push_back(static_cast<int32_t>(j));
  }
  return kept;
}

TEST_P(Select, KeepsTheBestByTheStatedOrder) {
  VSA_NEEDS(select);
  const bool held = rc::check([this] {
    // Few distinct values make ties the rule; the special ones are all in.
    const std::vector<double> values{-kInf, -2.0, -0.0, 0.0, 0.5, 3.0, kInf, kNan};
    const auto row =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(rc::gen::elementOf(values)));
    const auto topk = *rc::gen::inRange<int64_t>(1, static_cast<int64_t>(row.size()) + 1);
    RC_ASSERT(kept(row, {.topk = topk}) == by_counting(row, topk));
  });
  EXPECT_TRUE(held);
}

TEST_P(Select, AgreesOnLongRows) {
  VSA_NEEDS(select);
  // Long enough for any blocked or radix selection, with many equal scores.
  for (const int64_t n : {33, 64, 257, 1440}) {
    std::vector<double> row = normal_tensor(DType::kF32, {1, 1, 1, n}, 7).values();
    for (double& x : row) x = std::round(x * 8.0) / 8.0;
    for (const int64_t topk : {int64_t{1}, n / 8 + 1, n / 2, n - 1, n}) {
      EXPECT_EQ(kept(row, {.topk = topk}), by_counting(row, topk)) << n << " keep " << topk;
    }
  }
}

TEST_P(Select, T07_TiesKeepExactlyTopk) {
  VSA_NEEDS(select);
  for (const int64_t topk : {1, 3, 5, 8}) {
    std::vector<int32_t> first(static_cast<size_t>(topk));
    for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<int32_t>(i);
    EXPECT_EQ(kept(std::vector<double>(8, 0.25), {.topk = topk}), first);
  }
  EXPECT_EQ(kept({.5, .5, .9, .5, .9}, {.topk = 1}), (std::vector<int32_t>{2}));
  EXPECT_EQ(kept({-0.0, 0.0, -0.0, 0.0}, {.topk = 2}), (std::vector<int32_t>{0, 1}));
}

TEST_P(Select, T08_InfiniteScores) {
  VSA_NEEDS(select);
  const std::vector<double> row{-kInf, 1, -kInf, -kInf, 2, -kInf, 0, -kInf};
  EXPECT_EQ(kept(row, {.topk = 2}), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(kept(row, {.topk = 5}), (std::vector<int32_t>{0, 1, 2, 4, 6}));
  EXPECT_EQ(kept(std::vector<double>(8, -kInf), {.topk = 3}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(kept({kNan, -kInf, kNan, kInf}, {.topk = 3}), (std::vector<int32_t>{0, 1, 3}));
}

TEST_P(Select, T43_ForcedColumnsComeOnTopAndDenseRowsKeepAll) {
  VSA_NEEDS(select);
  const TestTensor scores = normal_tensor(DType::kF32, {2, 3, 9, 13}, 11);
  const std::vector<int32_t> forced{0, 1, 4};
  const std::vector<int32_t> dense{0, 1};
  const LutBuffer lut =
      run_select(context(), scores, {.topk = 2, .forced_columns = forced, .dense_rows = dense});
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t i = 0; i < 9; ++i) {
        const auto row = lut_row(lut.view(), b, h, i);
        ASSERT_EQ(row.size(), i < 2 ? 13U : 5U);
        EXPECT_TRUE(std::ranges::includes(row, forced));
        // What is not forced is the best two of the others.
        std::vector<double> others;
        for (int64_t j = 0; j < 13; ++j) {
          const bool is_forced = std::ranges::binary_search(forced, j);
          others.push_back(is_forced ? kNan : scores.at(b, h, i, j));
        }
        if (i < 2) continue;
        for (const int32_t j : by_counting(others, 2)) {
          EXPECT_TRUE(std::ranges::binary_search(row, j));
        }
      }
    }
  }
}

TEST_P(Select, ATableIsAscendingUniqueAndInRange) {
  VSA_NEEDS(select);
  const TestTensor scores = normal_tensor(DType::kF32, {2, 2, 7, 31}, 5);
  LutBuffer lut({2, 2, 7, 20});  // wider than needed: the tail must be -1
  throw_if_error(select(
      context(), {.coarse_scores = scores.view(), .options = {.topk = 9}, .lut = lut.view()}));
  const ConstLut view = lut.view();
  for (int64_t row = 0; row < 2 * 2 * 7; ++row) {
    ASSERT_EQ(view.count[row], 9);
    for (int64_t n = 0; n < 20; ++n) {
      const int32_t j = view.index[row * 20 + n];
      if (n >= 9) {
        EXPECT_EQ(j, -1);
      } else {
        EXPECT_GT(j, n == 0 ? -1 : view.index[row * 20 + n - 1]);
        EXPECT_LT(j, 31);
      }
    }
  }
}

}  // namespace
}  // namespace vsa::test
