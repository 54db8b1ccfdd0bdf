// Parity of relative_attention of the CUDA backend with the fp64 reference.
#include "tests/support/relative_attention.h"

#include <cmath>
#include <limits>

#include "tests/gpu/cases.h"

namespace vsa::test::gpu {
namespace {

void run_there(const RelativeAttentionCase& c, RelativeAttentionTensors& t) {
  const DeviceTensor q(ConstTensor(t.q.view()));
  const DeviceTensor k(ConstTensor(t.k.view()));
  const DeviceTensor v(ConstTensor(t.v.view()));
  const DeviceTensor bias(ConstTensor(t.bias.view()));
  const DeviceTensor out(ConstTensor(t.out.view()));
  RelativeAttentionArgs args = t.args(c);
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.bias = bias.view();
  args.out = out.view();
  run_on_gpu([&](const Context& context) { return relative_attention(context, args); });
  out.download(t.out.view());
}

class GpuRelativeAttention : public testing::TestWithParam<RelativeAttentionCase> {
 protected:
  void expect_same(const RelativeAttentionTensors& in) const {
    expect_relative_attention(GetParam(), in,
                              [&](RelativeAttentionTensors& t) { run_there(GetParam(), t); });
  }
};
INSTANTIATE_TEST_SUITE_P(Each, GpuRelativeAttention, testing::ValuesIn(relative_attention_cases()),
                         [](const auto& of) { return of.param.name; });

TEST_P(GpuRelativeAttention, EveryDtype) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    expect_same(relative_attention_tensors(GetParam(), dtype));
  }
}

TEST_P(GpuRelativeAttention, MinusInfinityHides) {
  VSA_NEEDS_GPU;
  RelativeAttentionTensors in = relative_attention_tensors(GetParam(), DType::kBF16);
  const double hidden = -std::numeric_limits<double>::infinity();
  const int64_t width = in.bias.dims().head_dim;
  for (int64_t d = 0; d < width; d += 2) in.bias.set(0, 0, 0, d, hidden);
  expect_same(in);
  for (int64_t d = 0; d < width; ++d) in.bias.set(0, 0, 0, d, hidden);
  expect_same(in);
}

TEST_P(GpuRelativeAttention, ANanStaysInItsRow) {
  VSA_NEEDS_GPU;
  RelativeAttentionTensors in = relative_attention_tensors(GetParam(), DType::kBF16);
  in.q.set(0, 0, 0, 1, std::nan(""));
  run_there(GetParam(), in);
  for (int64_t i = 0; i < GetParam().num_queries; ++i) {
    EXPECT_EQ(std::isnan(in.out.at(0, 0, i, 0)), i == 0) << i;
  }
}

TEST_P(GpuRelativeAttention, TheSameBitsTwice) {
  VSA_NEEDS_GPU;
  RelativeAttentionTensors first = relative_attention_tensors(GetParam(), DType::kBF16);
  RelativeAttentionTensors second = first;
  run_there(GetParam(), first);
  run_there(GetParam(), second);
  EXPECT_TRUE(same_bits(first.out, second.out));
}

}  // namespace
}  // namespace vsa::test::gpu
