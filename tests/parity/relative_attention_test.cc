// Parity of relative_attention, which tests/support/relative_attention.cc says how to compare.
#include "tests/support/relative_attention.h"

#include <cmath>
#include <limits>

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class RelativeAttentionParity
    : public testing::TestWithParam<std::tuple<BackendId, RelativeAttentionCase>> {
 protected:
  Context context() const { return {.backend = std::get<0>(GetParam())}; }
  const RelativeAttentionCase& shape() const { return std::get<1>(GetParam()); }
  void expect_same(const RelativeAttentionTensors& in) const {
    expect_relative_attention(shape(), in, [&](RelativeAttentionTensors& t) {
      throw_if_error(relative_attention(context(), t.args(shape())));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Each, RelativeAttentionParity,
                         testing::Combine(testing::Values(BackendId::kReference, BackendId::kCpu),
                                          testing::ValuesIn(relative_attention_cases())),
                         [](const auto& of) {
                           return std::get<1>(of.param).name + "_" +
                                  std::string(name(std::get<0>(of.param)));
                         });

TEST_P(RelativeAttentionParity, EveryDtype) {
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    expect_same(relative_attention_tensors(shape(), dtype));
  }
}

/// A bias of -inf hides a pair; with nothing left a row is 0.
TEST_P(RelativeAttentionParity, MinusInfinityHides) {
  RelativeAttentionTensors in = relative_attention_tensors(shape(), DType::kBF16);
  const double hidden = -std::numeric_limits<double>::infinity();
  const int64_t width = in.bias.dims().head_dim;
  for (int64_t d = 0; d < width; d += 2) in.bias.set(0, 0, 0, d, hidden);
  expect_same(in);
  for (int64_t d = 0; d < width; ++d) in.bias.set(0, 0, 0, d, hidden);
  expect_same(in);
  throw_if_error(relative_attention(context(), in.args(shape())));
  EXPECT_EQ(in.out.at(0, 0, 0, 0), 0.0);
}

TEST_P(RelativeAttentionParity, ANanStaysInItsRow) {
  RelativeAttentionTensors in = relative_attention_tensors(shape(), DType::kF32);
  in.q.set(0, 0, 0, 1, std::nan(""));
  throw_if_error(relative_attention(context(), in.args(shape())));
  for (int64_t i = 0; i < shape().num_queries; ++i) {
    EXPECT_EQ(std::isnan(in.out.at(0, 0, i, 0)), i == 0) << i;
  }
}

TEST_P(RelativeAttentionParity, ABatchMayShareItsBias) {
  const RelativeAttentionCase& c = shape();
  RelativeAttentionTensors in = relative_attention_tensors(c, DType::kF32);
  for (int64_t h = 0; h < c.num_heads; ++h) {
    for (int64_t d = 0; d < in.bias.dims().head_dim; ++d) {
      in.bias.set(c.batch - 1, h, 0, d, in.bias.at(0, h, 0, d));
    }
  }
  throw_if_error(relative_attention(context(), in.args(c)));
  RelativeAttentionTensors shared = relative_attention_tensors(c, DType::kF32);
  RelativeAttentionArgs args = shared.args(c);
  args.bias.stride[0] = 0;
  throw_if_error(relative_attention(context(), args));
  EXPECT_TRUE(same_bits(shared.out, in.out));
}

TEST_P(RelativeAttentionParity, TheSameBitsForAnyNumberOfThreads) {
  std::vector<TestTensor> all;
  for (const int threads : {1, 2, 7}) {
    Context with_threads = context();
    with_threads.num_threads = threads;
    RelativeAttentionTensors t = relative_attention_tensors(shape(), DType::kBF16);
    throw_if_error(relative_attention(with_threads, t.args(shape())));
    all.push_back(t.out);
    EXPECT_TRUE(same_bits(all.back(), all.front())) << threads;
  }
}

}  // namespace
}  // namespace vsa::test
