// src/reference/conv3d.cc, pixel_norm.cc, upsample.cc and softmax.cc by hand.
#include <gmock/gmock.h>

#include "tests/unit/reference/reference_test.h"
#include "vsa/vsa.h"

namespace vsa::test {
namespace {

using testing::HasSubstr;

TestTensor drawn(Dims dims, uint64_t seed = 1) {
  return normal_tensor(DType::kF64, dims, seed, Order::kBhsd);
}

TEST(ReferenceConv3d, SumsOverTapsWithZerosAroundFramesAndNoneBeforeThem) {
  constexpr int64_t kFrames = 3, kHeight = 2, kWidth = 3, kIn = 8, kOut = 16;
  const TestTensor x = drawn({1, kFrames, kHeight * kWidth, kIn});
  const TestTensor weight = drawn({1, kOut, 2 * 3 * 3, kIn}, 2);
  TestTensor out(DType::kF64, {1, kFrames - 1, kHeight * kWidth, kOut}, Order::kBhsd);
  throw_if_error(conv3d(kReference, {.x = x.view(),
                                     .weight = weight.view(),
                                     .height = kHeight,
                                     .kernel_frames = 2,
                                     .kernel_edge = 3,
                                     .out = out.view()}));
  const auto at = [&](int64_t f, int64_t r, int64_t c, int64_t k) {
    const bool inside = r >= 0 && r < kHeight && c >= 0 && c < kWidth;
    return inside ? x.at(0, f, r * kWidth + c, k) : 0.0;
  };
  for (int64_t f = 0; f + 1 < kFrames; ++f) {
    for (int64_t s = 0; s < kHeight * kWidth; ++s) {
      for (int64_t n = 0; n < kOut; ++n) {
        double sum = 0.0;
        for (int64_t tap = 0; tap < 18; ++tap) {
          for (int64_t k = 0; k < kIn; ++k) {
            sum += weight.at(0, n, tap, k) *
                   at(f + tap / 9, s / kWidth + tap / 3 % 3 - 1, s % kWidth + tap % 3 - 1, k);
          }
        }
        EXPECT_NEAR(out.at(0, f, s, n), sum, 1e-13);
      }
    }
  }
}

/// (3, 4, 0, ...) has the length 5: over 8 channels it becomes (3, 4, 0, ...) * sqrt(8) / 5.
TEST(ReferencePixelNorm, AddsNormsAndActivates) {
  TestTensor y = constant_tensor(DType::kF64, {.head_dim = 8}, 0.0);
  y.set(0, 0, 0, 0, 1.0);
  y.set(0, 0, 0, 1, 1.5);
  TestTensor bias = constant_tensor(DType::kF64, {.head_dim = 8}, 0.0);
  bias.set(0, 0, 0, 0, 0.5);
  TestTensor x = constant_tensor(DType::kF64, {.head_dim = 8}, 0.0);
  x.set(0, 0, 0, 0, 1.5);
  x.set(0, 0, 0, 1, 2.5);
  TestTensor gamma = constant_tensor(DType::kF64, {.head_dim = 8}, 1.0);
  gamma.set(0, 0, 0, 1, -2.0);
  TestTensor out(DType::kF64, {.head_dim = 8});
  PixelNormArgs args{.y = y.view(),
                     .bias = bias.view(),
                     .x = x.view(),
                     .gamma = gamma.view(),
                     .activation = Activation::kSilu,
                     .out = out.view()};
  throw_if_error(pixel_norm(kReference, args));
  EXPECT_NEAR(x.at(0, 0, 0, 0), 3.0, 1e-15);
  EXPECT_NEAR(x.at(0, 0, 0, 1), 4.0, 1e-15);
  const auto silu = [](double z) { return z / (1.0 + std::exp(-z)); };
  EXPECT_NEAR(out.at(0, 0, 0, 0), silu(3.0 * std::sqrt(8.0) / 5.0), 1e-14);
  EXPECT_NEAR(out.at(0, 0, 0, 1), silu(-8.0 * std::sqrt(8.0) / 5.0), 1e-14);
  EXPECT_EQ(out.at(0, 0, 0, 2), 0.0);
  args.residual = Residual::kReplace;
  throw_if_error(pixel_norm(kReference, args));
  EXPECT_NEAR(x.at(0, 0, 0, 0), 1.5, 1e-15);
}

TEST(ReferenceUpsample, PartsOfTheChannelsAreFramesAndPixelsBecomeFour) {
  const TestTensor x = drawn({1, 2, 2 * 3, 16});
  const TestTensor bias = drawn({.head_dim = 16}, 2);
  TestTensor out(DType::kF64, {1, 4, 4 * 6, 8}, Order::kBhsd);
  throw_if_error(upsample(
      kReference,
      {.x = x.view(), .bias = bias.view(), .height = 2, .frames_each = 2, .out = out.view()}));
  for (int64_t f = 0; f < 4; ++f) {
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t column = 0; column < 6; ++column) {
        const int64_t channel = f % 2 * 8 + 3;
        EXPECT_EQ(out.at(0, f, row * 6 + column, 3),
                  x.at(0, f / 2, row / 2 * 3 + column / 2, channel) + bias.at(0, 0, 0, channel));
      }
    }
  }
}

TEST(ReferenceSoftmax, ColumnsBehindTheOnesThatCountAreZero) {
  TestTensor x = constant_tensor(DType::kF64, {.head_dim = 8}, std::nan(""));
  x.set(0, 0, 0, 0, 1.0);
  x.set(0, 0, 0, 1, 2.0);
  TestTensor out(DType::kF64, {.head_dim = 8});
  throw_if_error(
      softmax(kReference, {.x = x.view(), .scale = 2.0F, .columns = 2, .out = out.view()}));
  EXPECT_NEAR(out.at(0, 0, 0, 0), 1.0 / (1.0 + std::exp(2.0)), 1e-15);
  EXPECT_NEAR(out.at(0, 0, 0, 1), 1.0 / (1.0 + std::exp(-2.0)), 1e-15);
  for (int64_t n = 2; n < 8; ++n) EXPECT_EQ(out.at(0, 0, 0, n), 0.0);
}

/// A call in which one argument was changed is refused by its name.
template <class Args>
class Refused {
 public:
  Refused(Status (*call)(const Context&, const Args&), const Args& right)
      : call_(call), right_(right) {
    EXPECT_TRUE(call(kReference, right).ok());
  }
  template <class Change>
  void operator()(const std::string& text, const Change& change) const {
    Args args = right_;
    change(args);
    const Status status = call_(kReference, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(text));
  }

 private:
  Status (*call_)(const Context&, const Args&);
  Args right_;
};

TEST(ReferenceConv3d, WrongArgumentsAreNamed) {
  const TestTensor x = drawn({1, 3, 12, 8}), odd = drawn({1, 3, 12, 12});
  const TestTensor weight = drawn({1, 16, 18, 8}), narrow = drawn({1, 12, 18, 8});
  TestTensor out(DType::kF64, {1, 2, 12, 16}, Order::kBhsd);
  TestTensor narrow_out(DType::kF64, {1, 2, 12, 12}, Order::kBhsd);
  const Refused refused(conv3d, Conv3dArgs{.x = x.view(),
                                           .weight = weight.view(),
                                           .height = 4,
                                           .kernel_frames = 2,
                                           .kernel_edge = 3,
                                           .out = out.view()});
  refused("] x: expected its last axis to be a multiple of 8, got 12",
          [&](auto& a) { a.x = odd.view(); });
  refused("] x: expected contiguous memory", [](auto& a) { a.x.stride[1] *= 2; });
  refused("] height: expected a number of rows that divides 12, got 5",
          [](auto& a) { a.height = 5; });
  refused("] height: expected", [](auto& a) { a.height = 0; });
  refused("] kernel_frames: expected 1 to 3, got 4", [](auto& a) { a.kernel_frames = 4; });
  refused("] kernel_edge: expected an odd number, got 2", [](auto& a) { a.kernel_edge = 2; });
  refused("] kernel_edge: expected 1 to 31, got -1", [](auto& a) { a.kernel_edge = -1; });
  refused("] weight: expected f64 [1,H,9,8]", [](auto& a) { a.kernel_frames = 1; });
  refused("] out: expected its last axis to be a multiple of 8, got 12", [&](auto& a) {
    a.weight = narrow.view();
    a.out = narrow_out.view();
  });
  refused("] out: expected f64 [1,2,12,16]", [&](auto& a) { a.out.shape[1] = 3; });
}

TEST(ReferencePixelNorm, WrongArgumentsAreNamed) {
  const TestTensor y = drawn({.seq_len = 3, .head_dim = 8}), vector = drawn({.head_dim = 8});
  TestTensor x = drawn({.seq_len = 3, .head_dim = 8}), out(DType::kF64, x.dims());
  const Refused refused(pixel_norm, PixelNormArgs{.y = y.view(),
                                                  .bias = vector.view(),
                                                  .x = x.view(),
                                                  .gamma = vector.view(),
                                                  .out = out.view()});
  refused("] activation: expected kNone or kSilu, got 1",
          [](auto& a) { a.activation = Activation::kGeluTanh; });
  refused("] residual: expected kAdd or kReplace, got 2",
          [](auto& a) { a.residual = static_cast<Residual>(2); });
  refused("] gamma: expected none without out", [](auto& a) { a.out = {}; });
  refused("] out: expected a tensor, as there is no x, got none", [](auto& a) {
    a.out = {};
    a.x = {};
  });
  refused("] activation: expected kNone without out", [](auto& a) {
    a.out = {};
    a.gamma = {};
    a.activation = Activation::kSilu;
  });
  refused("] out: expected f32|f64 [1,1,3,8]", [](auto& a) { a.out.shape[3] = 3; });
  refused("] bias: expected", [](auto& a) { a.bias.shape[3] = 16; });
}

TEST(ReferenceUpsample, WrongArgumentsAreNamed) {
  const TestTensor x = drawn({1, 2, 6, 16});
  TestTensor out(DType::kF64, {1, 4, 24, 8}, Order::kBhsd);
  const Refused refused(
      upsample, UpsampleArgs{.x = x.view(), .height = 2, .frames_each = 2, .out = out.view()});
  refused("] height: expected a number of rows that divides 6, got 4",
          [](auto& a) { a.height = 4; });
  refused("] frames_each: expected 1 to 2, got 3", [](auto& a) { a.frames_each = 3; });
  refused("] out: expected f64 [1,2,24,16]", [](auto& a) { a.frames_each = 1; });
  refused("] x: expected contiguous memory", [](auto& a) { a.x.stride[2] = 32; });
}

TEST(ReferenceSoftmax, WrongArgumentsAreNamed) {
  const TestTensor x = drawn({.seq_len = 2, .head_dim = 8}), odd = drawn({.head_dim = 12});
  TestTensor out(DType::kF64, {.seq_len = 2, .head_dim = 8});
  const Refused refused(softmax, SoftmaxArgs{.x = x.view(), .columns = 5, .out = out.view()});
  refused("] columns: expected 1 to 8, got 0", [](auto& a) { a.columns = 0; });
  refused("] columns: expected 1 to 8, got 9", [](auto& a) { a.columns = 9; });
  refused("] scale: expected a finite number", [](auto& a) { a.scale = std::nanf(""); });
  refused("] x: expected its last axis to be a multiple of 8, got 12",
          [&](auto& a) { a.x = odd.view(); });
}

}  // namespace
}  // namespace vsa::test
