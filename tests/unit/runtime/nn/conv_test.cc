// Convolutions against double loops, and their independence of threads and place.
#include "runtime/nn/conv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/nn/parallel.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/weights.h"

namespace vsa::nn {
namespace {

struct Case {
  std::vector<int64_t> weight;  // [out, in, kernel...]
  ConvStride stride;
  ConvShape shape;
  io::StorageType type = io::StorageType::kF32;
};

/// A convolution with its weights and its input.
struct Problem {
  explicit Problem(const Case& c) : given(c) {
    const auto& w = c.weight;
    out = w[0];
    in = w[1];
    frames = w.size() == 5 ? w[2] : 1;
    height = w[w.size() - 2];
    width = w.back();
    weight = test::normal_f32(out * in * frames * height * width, 1);
    for (float& v : weight) v = test::rounded_to(v, c.type);
    bias = test::normal_f32(out, 2);
    x = test::normal_f32(c.shape.frames * c.shape.height * c.shape.width * in, 3);
    weight_bytes = test::stored(weight, c.type);
    bias_bytes = test::stored(bias, io::StorageType::kF32);
    const ConvShape& s = c.shape;
    frames_out = (s.frames + s.front - frames) / c.stride.frames + 1;
    height_out = (s.height + s.top + s.bottom - height) / c.stride.edges + 1;
    width_out = (s.width + s.left + s.right - width) / c.stride.edges + 1;
  }

  Conv conv() const {
    return Conv({.name = "w", .type = given.type, .shape = given.weight, .bytes = weight_bytes},
                {.name = "b", .shape = {out}, .bytes = bias_bytes}, given.stride);
  }
  int64_t size_out() const { return frames_out * height_out * width_out * out; }

  /// What is added to one output, by double loops: (sum, sum of absolute values).
  std::pair<double, double> exact(int64_t f, int64_t r, int64_t c, int64_t o) const {
    double sum = static_cast<double>(bias[static_cast<size_t>(o)]);
    double magnitude = std::abs(sum);
    for (int64_t kf = 0; kf < frames; ++kf) {
      for (int64_t kr = 0; kr < height; ++kr) {
        for (int64_t kc = 0; kc < width; ++kc) {
          const int64_t xf = f * given.stride.frames + kf - given.shape.front;
          const int64_t xr = r * given.stride.edges + kr - given.shape.top;
          const int64_t xc = c * given.stride.edges + kc - given.shape.left;
          if (xf < 0 || xr < 0 || xc < 0 || xr >= given.shape.height || xc >= given.shape.width) {
            continue;
          }
          const int64_t pixel = (xf * given.shape.height + xr) * given.shape.width + xc;
          for (int64_t i = 0; i < in; ++i) {
            const int64_t at = (((o * in + i) * frames + kf) * height + kr) * width + kc;
            const double term = static_cast<double>(x[static_cast<size_t>(pixel * in + i)]) *
                                static_cast<double>(weight[static_cast<size_t>(at)]);
            sum += term;
            magnitude += std::abs(term);
          }
        }
      }
    }
    return {sum, magnitude};
  }

  Case given;
  int64_t out = 0, in = 0, frames = 0, height = 0, width = 0;
  int64_t frames_out = 0, height_out = 0, width_out = 0;
  std::vector<float> weight, bias, x;
  std::vector<std::byte> weight_bytes, bias_bytes;
};

class Convolution : public testing::TestWithParam<Case> {};

TEST_P(Convolution, EqualsDoubleLoops) {
  const Problem problem(GetParam());
  const std::vector<float> before = test::normal_f32(problem.size_out(), 4);
  for (const Into into : {Into::kReplace, Into::kAdd}) {
    std::vector<float> y = before;
    problem.conv().forward(GetParam().shape, problem.x.data(), y.data(), into);
    test::Exact want;
    size_t at = 0;
    for (int64_t f = 0; f < problem.frames_out; ++f) {
      for (int64_t r = 0; r < problem.height_out; ++r) {
        for (int64_t c = 0; c < problem.width_out; ++c) {
          for (int64_t o = 0; o < problem.out; ++o, ++at) {
            const auto [sum, magnitude] = problem.exact(f, r, c, o);
            const double there = into == Into::kAdd ? static_cast<double>(before[at]) : 0.0;
            want.add(sum + there, magnitude + std::abs(there));
          }
        }
      }
    }
    // A sum of n products, the bias and what was there, in any order.
    const int64_t terms = problem.in * problem.frames * problem.height * problem.width + 2;
    test::expect_rounded(y, want, static_cast<double>(terms));
  }
}

constexpr ConvShape kSame{
    .frames = 4, .height = 5, .width = 7, .front = 2, .top = 1, .bottom = 1, .left = 1, .right = 1};
constexpr ConvShape kPicture{
    .frames = 2, .height = 5, .width = 7, .top = 1, .bottom = 1, .left = 1, .right = 1};
constexpr ConvShape kInside{.frames = 3, .height = 4, .width = 5, .left = 1, .right = 1};
constexpr ConvShape kHalf{.frames = 3, .height = 6, .width = 9, .bottom = 1};

INSTANTIATE_TEST_SUITE_P(
    Cases, Convolution,
    testing::Values(Case{{3, 3, 3, 3, 3}, {}, kSame}, Case{{5, 1, 3, 3, 3}, {}, kSame},
                    Case{{32, 32, 3, 3, 3}, {}, kSame}, Case{{96, 48, 3, 3, 3}, {}, kInside},
                    Case{{3, 96, 3, 3, 3}, {}, kSame}, Case{{24, 16, 3, 3, 3}, {}, kInside},
                    Case{{16, 32, 3, 3}, {}, kPicture}, Case{{1, 3, 3, 3}, {}, kPicture},
                    Case{{32, 32, 3, 3}, {.edges = 2}, kHalf},
                    Case{{6, 6, 3, 3}, {.edges = 2}, kHalf},
                    Case{{64, 32, 3, 1, 1}, {}, {.frames = 4, .height = 3, .width = 5}},
                    Case{{6, 3, 3, 1, 1}, {}, {.frames = 1, .height = 3, .width = 5, .front = 2}},
                    Case{{3, 3, 3, 1, 1}, {.frames = 2}, {.frames = 5, .height = 3, .width = 5}},
                    Case{{32, 32, 3, 3, 3}, {}, kSame, io::StorageType::kBF16},
                    Case{{4, 4, 3, 3}, {}, kPicture, io::StorageType::kF16}));

TEST(Convolutions, DoNotDependOnTheNumberOfThreads) {
  const Problem problem({{96, 48, 3, 3, 3}, {}, kSame});
  std::vector<float> one(static_cast<size_t>(problem.size_out()));
  std::vector<float> three(one.size());
  {
    const ThreadCount threads(1);
    problem.conv().forward(kSame, problem.x.data(), one.data());
  }
  const ThreadCount threads(3);
  problem.conv().forward(kSame, problem.x.data(), three.data());
  EXPECT_EQ(one, three);
}

TEST(Convolutions, NanSpreadsToWhatReadsIt) {
  Problem problem({{4, 4, 3, 3, 3}, {}, kSame});
  problem.x.front() = std::nanf("");
  std::vector<float> y(static_cast<size_t>(problem.size_out()));
  problem.conv().forward(kSame, problem.x.data(), y.data());
  EXPECT_TRUE(std::isnan(y.front()));
  EXPECT_FALSE(std::isnan(y.back()));
}

}  // namespace
}  // namespace vsa::nn
