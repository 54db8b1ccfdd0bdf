// Attention to short lists of keys, and the exponential it uses.
#include "runtime/nn/text_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/nn/fast_exp.h"
#include "tests/runtime_support/arrays.h"

namespace vsa::nn {
namespace {

constexpr int64_t kHeads = 3, kDim = 20;

/// Softmax attention in f64; the magnitude allows for errors of the scores.
test::Exact attention(const std::vector<float>& q, const std::vector<float>& k,
                      const std::vector<float>& v, const std::vector<float>& bias, double scale) {
  const int64_t width = kHeads * kDim;
  const int64_t rows = std::ssize(q) / width, keys = std::ssize(k) / width;
  test::Exact out;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t h = 0; h < kHeads; ++h) {
      std::vector<double> p;
      double sum = 0.0, largest_term = 0.0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = bias.empty() ? 0.0 : bias[static_cast<size_t>((h * rows + i) * keys + j)];
        double size = std::abs(score);
        for (int64_t d = 0; d < kDim; ++d) {
          const double term = scale * q[static_cast<size_t>(i * width + h * kDim + d)] *
                              k[static_cast<size_t>(j * width + h * kDim + d)];
          score += term;
          size += std::abs(term);
        }
        largest_term = std::max(largest_term, size);
        p.push_back(std::exp(score));
        sum += p.back();
      }
      for (int64_t d = 0; d < kDim; ++d) {
        double value = 0.0, size = 0.0;
        for (int64_t j = 0; j < keys; ++j) {
          const double term =
              p[static_cast<size_t>(j)] / sum * v[static_cast<size_t>(j * width + h * kDim + d)];
          value += term;
          size += std::abs(term);
        }
        // exp turns an absolute error of a score into a relative one of a weight.
        out.add(value, size * (1.0 + largest_term));
      }
    }
  }
  return out;
}

class TextAttention : public testing::TestWithParam<int64_t> {};

TEST_P(TextAttention, EqualsDoubleLoops) {
  const int64_t keys = GetParam();
  constexpr int64_t kRows = 6;
  std::vector<float> q = test::normal_f32(kRows * kHeads * kDim, 1);
  const std::vector<float> k = test::normal_f32(keys * kHeads * kDim, 2);
  const std::vector<float> v = test::normal_f32(keys * kHeads * kDim, 3);
  const std::vector<float> bias = test::normal_f32(kHeads * kRows * keys, 4);
  const test::Exact want = attention(q, k, v, bias, 0.3);
  const KeyValue kv(k.data(), v.data(), keys, kHeads, kDim);
  attend({.q = q.data(),
          .rows = kRows,
          .kv = &kv,
          .scale = 0.3F,
          .bias = bias.data(),
          .bias_head_stride = kRows * keys,
          .bias_row_stride = keys,
          .out = q.data()});  // in place
  // kDim + 2 roundings of a score on each side of the softmax, keys of the weighted sum.
  test::expect_rounded(q, want, 2.0 * (kDim + 4) + static_cast<double>(keys));
}
INSTANTIATE_TEST_SUITE_P(Keys, TextAttention, testing::Values(1, 2, 15, 16, 17, 40));

TEST(TextAttentionBias, LogOfACountStandsForRepeatedKeys) {
  // 3 keys, the last one five times.
  const std::vector<float> q = test::normal_f32(kHeads * kDim, 1);
  std::vector<float> k = test::normal_f32(3 * kHeads * kDim, 2);
  std::vector<float> v = test::normal_f32(3 * kHeads * kDim, 3);
  const KeyValue few(k.data(), v.data(), 3, kHeads, kDim);
  const std::vector<float> bias{0.0F, 0.0F, std::log(5.0F)};
  std::vector<float> got(q.size());
  attend({.q = q.data(), .rows = 1, .kv = &few, .bias = bias.data(), .out = got.data()});
  for (std::vector<float>* x : {&k, &v}) {
    const std::vector<float> last(x->end() - kHeads * kDim, x->end());
    for (int i = 0; i < 4; ++i) x->insert(x->end(), last.begin(), last.end());
  }
  test::expect_rounded(got, attention(q, k, v, {}, 1.0), 2.0 * (kDim + 4) + 7);
}

TEST(FastExp, IsWithinTwoUlp) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-1000.0F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::nanf(""))));
  for (float x = 0.0F; x > -87.0F; x -= 0.00173F) {
    const double want = std::exp(static_cast<double>(x));
    ASSERT_NEAR(exp_nonpositive(x), want, 2.0 * 0x1p-23 * want) << x;
  }
}

}  // namespace
}  // namespace vsa::nn
