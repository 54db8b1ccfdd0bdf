// Parity of residual_norm, which tests/support/residual_norm.cc says how to compare.
#include "tests/support/residual_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "tests/support/backends.h"
#include "tests/support/compare.h"

namespace vsa::test {
namespace {

class ResidualNormParity : public testing::TestWithParam<std::tuple<BackendId, ResidualNormCase>> {
 protected:
  Context context() const { return {.backend = std::get<0>(GetParam())}; }
  const ResidualNormCase& shape() const { return std::get<1>(GetParam()); }
  RunResidualNorm run(const ResidualNormExtras& extras) const {
    return [&, here = context()](ResidualNormTensors& t) {
      throw_if_error(residual_norm(here, t.args(extras)));
    };
  }
};
INSTANTIATE_TEST_SUITE_P(Each, ResidualNormParity,
                         testing::Combine(testing::Values(BackendId::kReference, BackendId::kCpu),
                                          testing::ValuesIn(residual_norm_cases())),
                         [](const auto& of) {
                           return std::get<1>(of.param).name + "_" +
                                  std::string(name(std::get<0>(of.param)));
                         });

TEST_P(ResidualNormParity, EveryDtypeAndWhateverIsLeftOut) {
  VSA_NEEDS(residual_norm);
  const std::pair<DType, DType> dtypes[] = {{DType::kF32, DType::kF32},
                                            {DType::kF32, DType::kBF16},
                                            {DType::kF32, DType::kF16},
                                            {DType::kBF16, DType::kBF16},
                                            {DType::kF16, DType::kF16}};
  for (const auto& [x_dtype, dtype] : dtypes) {
    SCOPED_TRACE(std::string(name(x_dtype)) + " " + std::string(name(dtype)));
    const ResidualNormTensors in = residual_norm_tensors(shape(), x_dtype, dtype);
    for (const ResidualNormExtras& extras : residual_norm_extras()) {
      SCOPED_TRACE(extras.name);
      expect_residual_norm(in, extras, run(extras));
    }
  }
}

/// mean(x^2) - mean(x)^2 in fp32 would have no right digit here.
TEST_P(ResidualNormParity, ALargeMeanDoesNotCancel) {
  VSA_NEEDS(residual_norm);
  const ResidualNormExtras extras{"norm", false, false, true, true, true};
  ResidualNormTensors in = residual_norm_tensors(shape(), DType::kF32, DType::kF32);
  in.x = in.x.map([](double x) { return 4096.0 + x; }).as(DType::kF32);
  expect_residual_norm(in, extras, run(extras));
}

/// A token's out is all NaN, and its neighbours have the bits that they have without it.
TEST_P(ResidualNormParity, NanAndInfinityStayInTheirToken) {
  VSA_NEEDS(residual_norm);
  const ResidualNormExtras extras{"all", true, true, true, true, true};
  const auto after = [&](ResidualNormTensors t) {
    run(extras)(t);
    return t;
  };
  const ResidualNormTensors clean =
      after(residual_norm_tensors(shape(), DType::kF32, DType::kBF16));
  const auto& [batch, num_heads, seq_len, head_dim] = shape().dims;
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    ResidualNormTensors in = residual_norm_tensors(shape(), DType::kF32, DType::kBF16);
    in.x.set(0, num_heads - 1, 1, head_dim - 1, bad);
    const ResidualNormTensors got = after(in);
    int64_t num_wrong = 0;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < num_heads; ++h) {
        for (int64_t s = 0; s < seq_len; ++s) {
          for (int64_t d = 0; d < head_dim; ++d) {
            const double out = got.out.at(b, h, s, d);
            const bool spoiled = b == 0 && s == 1;
            num_wrong += spoiled ? !std::isnan(out) : out != clean.out.at(b, h, s, d);
          }
        }
      }
    }
    EXPECT_EQ(num_wrong, 0) << bad;
  }
}

TEST_P(ResidualNormParity, TheSameBitsForAnyNumberOfThreads) {
  VSA_NEEDS(residual_norm);
  const ResidualNormExtras extras{"all", true, true, true, true, true};
  std::vector<ResidualNormTensors> all;
  for (const int threads : {1, 2, 7}) {
    Context with_threads = context();
    with_threads.num_threads = threads;
    all.push_back(residual_norm_tensors(shape(), DType::kF32, DType::kBF16));
    throw_if_error(residual_norm(with_threads, all.back().args(extras)));
    EXPECT_TRUE(same_bits(all.back().x, all.front().x)) << threads;
    EXPECT_TRUE(same_bits(all.back().out, all.front().out)) << threads;
  }
}

}  // namespace
}  // namespace vsa::test
