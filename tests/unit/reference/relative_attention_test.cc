// src/reference/relative_attention.cc by hand.
#include "vsa/relative_attention.h"

#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

constexpr int64_t kD = 8;

/// out of two queries and three keys of one head. Queries and keys are ones times a number, the
/// value of key j is 10^j in every column.
TestTensor attended(const std::vector<double>& queries, const std::vector<double>& keys,
                    const std::vector<double>& bias, std::optional<float> scale) {
  const TestTensor q = rows_of(queries);
  const TestTensor k = rows_of(keys);
  const TestTensor v = rows_of({1.0, 10.0, 100.0});
  TestTensor b(DType::kF64, {1, 1, 1, static_cast<int64_t>(bias.size())});
  for (size_t d = 0; d < bias.size(); ++d) b.set(0, 0, 0, static_cast<int64_t>(d), bias[d]);
  TestTensor out(DType::kF64, q.dims());
  throw_if_error(relative_attention(kReference, {.q = q.view(),
                                                 .k = k.view(),
                                                 .v = v.view(),
                                                 .bias = b.view(),
                                                 .scale = scale,
                                                 .out = out.view()}));
  return out;
}

TEST(ReferenceRelativeAttention, TheBiasIsThatOfKeyMinusQuery) {
  // Distances -1, 0, 1, 2: query 0 sees the keys at 0, 1, 2, query 1 at -1, 0, 1.
  const double log2 = std::log(2.0);
  const double log5 = std::log(5.0);
  const std::vector<double> bias = {log2, 0.0, log5, -HUGE_VAL};
  const std::vector<double> out = column(attended({0, 0}, {0, 0, 0}, bias, {}));
  EXPECT_NEAR(out[0], (1.0 + 5.0 * 10.0) / 6.0, 1e-13);
  EXPECT_NEAR(out[1], (2.0 * 1.0 + 10.0 + 5.0 * 100.0) / 8.0, 1e-13);
}

TEST(ReferenceRelativeAttention, ScoresAreScaledAndTheBiasIsNot) {
  const std::vector<double> bias = {0.0, 1.0, 0.0, 0.0};
  // q . k = 8 q k, so that with a scale of 1/8 the scores of query 0 are 1 + 1, 2 and 3.
  const std::vector<double> out = column(attended({1, 0}, {1, 2, 3}, bias, 0.125F));
  const double e2 = std::exp(2.0);
  const double e3 = std::exp(3.0);
  EXPECT_NEAR(out[0], (e2 + 10.0 * e2 + 100.0 * e3) / (2.0 * e2 + e3), 1e-12);
  const std::vector<double> by_default =
      column(attended({1, 0}, {1, 2, 3}, {0, 0, 0, 0}, std::nullopt));
  const double e = std::exp(static_cast<double>(default_scale(kD)) * 8.0);
  EXPECT_NEAR(by_default[0], (1.0 + 10.0 * e + 100.0 * e * e) / (1.0 + e + e * e), 1e-5);
}

TEST(ReferenceRelativeAttention, NothingToAttendToIsZero) {
  const std::vector<double> bias(4, -HUGE_VAL);
  EXPECT_EQ(column(attended({1, 2}, {1, 2, 3}, bias, {})), (std::vector<double>{0.0, 0.0}));
}

TEST(ReferenceRelativeAttention, WrongArgumentsAreNamed) {
  const Dims q_dims{1, 4, 5, kD};
  const TestTensor q = normal_tensor(DType::kF64, q_dims, 1);
  const TestTensor kv = normal_tensor(DType::kF64, {1, 2, 3, kD}, 2);
  const TestTensor three = normal_tensor(DType::kF64, {1, 3, 3, kD}, 2);
  const TestTensor bias = normal_tensor(DType::kF64, {1, 4, 1, 7}, 3);
  const TestTensor bf16 = normal_tensor(DType::kBF16, {1, 4, 1, 7}, 3);
  TestTensor out(DType::kF64, q_dims);
  const RelativeAttentionArgs right{
      .q = q.view(), .k = kv.view(), .v = kv.view(), .bias = bias.view(), .out = out.view()};
  EXPECT_TRUE(relative_attention(kReference, right).ok());
  const auto refused = [&](auto change, const std::string& text) {
    RelativeAttentionArgs args = right;
    change(args);
    const Status status = relative_attention(kReference, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().rfind("[relative_attention] " + text, 0), 0U) << status.message();
  };
  refused([&](auto& a) { a.q = {}; }, "q: expected");
  refused([&](auto& a) { a.k = a.v = three.view(); },
          "k: expected a number of heads that divides 4, got 3");
  refused([&](auto& a) { a.v = q.view(); }, "v: expected f64 [1,2,3,8], got f64 [1,4,5,8]");
  refused([&](auto& a) { a.bias = q.view(); }, "bias: expected f32|f64 [1,4,1,7]");
  refused([&](auto& a) { a.bias = bf16.view(); }, "bias: expected f32|f64 [1,4,1,7], got bf16");
  refused([&](auto& a) { a.bias = {}; }, "bias: expected f32|f64 [1,4,1,7], got null data");
  refused([&](auto& a) { a.scale = std::nanf(""); }, "scale: expected a finite number");
  refused([&](auto& a) { a.out = {}; }, "out: expected f64 [1,4,5,8]");
}

}  // namespace
}  // namespace vsa::test
