// src/reference/linear.cc by hand.
#include "vsa/linear.h"

#include <cmath>

#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

TestTensor matrix(int64_t rows, int64_t columns) {
  return normal_tensor(DType::kF64, {1, 1, rows, columns}, static_cast<uint64_t>(rows));
}

TEST(ReferenceLinear, SumsOverTheLastAxisOfBoth) {
  const TestTensor x = matrix(3, 8);
  const TestTensor weight = matrix(16, 8);
  const TestTensor bias = matrix(1, 16);
  TestTensor out(DType::kF64, {1, 1, 3, 16});
  throw_if_error(
      linear(kReference,
             {.x = x.view(), .weight = weight.view(), .bias = bias.view(), .out = out.view()}));
  for (int64_t m = 0; m < 3; ++m) {
    for (int64_t n = 0; n < 16; ++n) {
      double sum = bias.at(0, 0, 0, n);
      for (int64_t k = 0; k < 8; ++k) sum += x.at(0, 0, m, k) * weight.at(0, 0, n, k);
      EXPECT_NEAR(out.at(0, 0, m, n), sum, 1e-14);
    }
  }
}

/// Values of torch.nn.functional.gelu(x, approximate="tanh") in fp64.
TEST(ReferenceLinear, GeluIsTheOneByTanh) {
  TestTensor one(DType::kF64, {1, 1, 8, 8});
  for (int64_t i = 0; i < 8; ++i) one.set_row(0, 0, i, 0.0);
  for (int64_t i = 0; i < 8; ++i) one.set(0, 0, i, i, 1.0);
  TestTensor x = constant_tensor(DType::kF64, {1, 1, 1, 8}, 0.0);
  x.set(0, 0, 0, 0, 1.0);
  x.set(0, 0, 0, 1, -1.0);
  x.set(0, 0, 0, 2, 3.0);
  x.set(0, 0, 0, 3, -3.0);
  TestTensor out(DType::kF64, {1, 1, 1, 8});
  throw_if_error(linear(kReference, {.x = x.view(),
                                     .weight = one.view(),
                                     .activation = Activation::kGeluTanh,
                                     .out = out.view()}));
  EXPECT_NEAR(out.at(0, 0, 0, 0), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(out.at(0, 0, 0, 1), -0.1588080093917232, 1e-15);
  EXPECT_NEAR(out.at(0, 0, 0, 2), 2.996362607918227, 1e-14);
  EXPECT_NEAR(out.at(0, 0, 0, 3), -0.003637392081773, 1e-14);
  EXPECT_EQ(out.at(0, 0, 0, 4), 0.0);
}

TEST(ReferenceLinear, WrongArgumentsAreNamed) {
  const TestTensor x = matrix(3, 16);
  const TestTensor weight = matrix(8, 16);
  TestTensor out(DType::kF64, {1, 1, 3, 8});
  const LinearArgs right{.x = x.view(), .weight = weight.view(), .out = out.view()};
  const auto refused = [&](const LinearArgs& args, const std::string& text) {
    const Status status = linear(kReference, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  const auto changed = [&](auto change) {
    LinearArgs args = right;
    change(args);
    return args;
  };
  EXPECT_TRUE(linear(kReference, right).ok());
  const TestTensor odd = matrix(3, 12);
  const TestTensor other = matrix(8, 24);
  const TestTensor narrow = matrix(12, 16);
  refused(changed([&](auto& a) { a.x = odd.view(); }),
          "] x: expected its last axis, K, to be a multiple of 8, got 12");
  refused(changed([&](auto& a) { a.weight = other.view(); }), "] weight: expected");
  refused(changed([&](auto& a) { a.weight = narrow.view(); }),
          "] weight: expected its rows, N, to be a multiple of 8, got 12");
  refused(changed([&](auto& a) { a.activation = static_cast<Activation>(2); }),
          "] activation: expected kNone or kGeluTanh, got 2");
  refused(changed([&](auto& a) { a.bias = x.view(); }), "] bias: expected");
  refused(changed([&](auto& a) { a.x.shape[0] = 2; }), "] x: expected");
  TestTensor half(DType::kBF16, {1, 1, 3, 8});
  refused(changed([&](auto& a) { a.out = half.view(); }), "] out: expected");
  refused(changed([&](auto& a) { a.out = {}; }), "] out: expected");
}

}  // namespace
}  // namespace vsa::test
