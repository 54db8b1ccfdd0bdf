// Parity of select. Its input is the same bits on every backend, so its output must be the same.
#include <cmath>
#include <limits>

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class SelectParity : public ParityTest {
 protected:
  /// Scores with what makes rows hard: ties, both zeros, infinities and NaN.
  TestTensor scores() const {
    const Heads& heads = shape().heads;
    TestTensor scores = normal_tensor(
        DType::kF32,
        {heads.batch, heads.num_heads, shape().q_plan().num_tiles(), shape().kv_plan().num_tiles()},
        6, shape().order);
    std::vector<double> values = scores.values();
    const double inf = std::numeric_limits<double>::infinity();
    const double special[] = {0.0, -0.0, 0.5, 0.5, -inf, std::nan(""), inf, 0.5};
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % 3 != 0) values[i] = special[(i * i) % std::size(special)];
    }
    scores.set_values(values);
    return scores;
  }
};
VSA_PARITY(SelectParity);

TEST_P(SelectParity, EveryTopk) {
  VSA_NEEDS(select);
  const TestTensor x = scores();
  const int64_t num_kv_tiles = x.dims().head_dim;
  for (int64_t topk = 1; topk <= num_kv_tiles; ++topk) {
    const SelectOptions options{.topk = topk};
    SCOPED_TRACE(topk);
    EXPECT_TRUE(same_lut(run_select(context(), x, options).view(),
                         run_select(kReference, x, options).view()));
  }
}

TEST_P(SelectParity, ForcedColumnsAndDenseRows) {
  VSA_NEEDS(select);
  const TestTensor x = scores();
  const std::vector<int32_t> forced{0, static_cast<int32_t>(x.dims().head_dim - 1)};
  const std::vector<int32_t> dense{static_cast<int32_t>(x.dims().seq_len / 2)};
  for (int64_t topk = 1; topk <= x.dims().head_dim; ++topk) {
    SCOPED_TRACE(topk);
    for (const SelectOptions& options :
         {SelectOptions{.topk = topk, .forced_columns = forced},
          SelectOptions{.topk = topk, .forced_columns = forced, .dense_rows = dense}}) {
      EXPECT_TRUE(same_lut(run_select(context(), x, options).view(),
                           run_select(kReference, x, options).view()));
    }
  }
}

}  // namespace
}  // namespace vsa::test
