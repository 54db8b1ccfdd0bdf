// Attention to short lists of keys.
#include "runtime/nn/text_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

/// One query [1, 0, ...] with keys [score, 0, ...] and values that name their key.
float attend_to_scores(const std::vector<float>& scores, const std::vector<float>& values) {
  const auto keys = std::ssize(scores);
  std::vector<float> q(4), k(static_cast<size_t>(4 * keys)), v(k.size()), out(4);
  q[0] = 1.0F;
  for (size_t j = 0; j < scores.size(); ++j) {
    k[4 * j] = scores[j];
    v[4 * j] = values[j];
  }
  const KeyValue kv(k.data(), v.data(), keys, 1, 4);
  attend({.q = q.data(), .rows = 1, .kv = &kv, .out = out.data()});
  return out[0];
}

TEST(TextAttentionScores, FarScoresLeaveNothingAndNanStaysNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float far : {-200.0F, -1e30F, -infinity}) {
    EXPECT_EQ(attend_to_scores({0.0F, far}, {3.0F, 1e30F}), 3.0F) << far;
  }
  EXPECT_EQ(attend_to_scores({3e38F, 3e38F}, {1.0F, 2.0F}), 1.5F);  // no overflow
  for (size_t keys : {2U, 17U, 40U}) {
    for (const size_t broken : {size_t{0}, keys - 1}) {
      std::vector<float> scores(keys, 1.0F);
      scores[broken] = std::nanf("");
      EXPECT_TRUE(std::isnan(attend_to_scores(scores, std::vector<float>(keys, 1.0F))));
    }
  }
}

TEST(TextAttentionScores, WeightsAreExponentialsToAFewUlp) {
  // Two keys, so that the result is 1 / (1 + e^-x): x from 0 to where e^-x is lost.
  for (float x = 0.0F; x < 20.0F; x += 0.0173F) {
    const double want = 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
    ASSERT_NEAR(attend_to_scores({0.0F, -x}, {1.0F, 0.0F}), want, 4 * 0x1p-24 * want) << x;
  }
}

}  // namespace
}  // namespace vsa::nn
