// Parity of linear, which tests/support/linear.cc says how to compare.
#include "tests/support/linear.h"

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class LinearParity : public testing::TestWithParam<BackendId> {
 protected:
  Context context() const { return {.backend = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Each, LinearParity,
                         testing::Values(BackendId::kReference, BackendId::kCpu),
                         [](const auto& each) { return std::string(name(each.param)); });

TEST_P(LinearParity, EveryDtypeAndEpilogue) {
  for (const LinearCase& c : linear_cases(kTokenDtypes)) {
    SCOPED_TRACE(testing::Message() << name(c.dtype) << " to " << name(c.out_dtype) << " bias "
                                    << c.bias << " " << c.m << "x" << c.n << "x" << c.k);
    expect_linear(c, [&](LinearTensors& t) { throw_if_error(linear(context(), t.args(c))); });
  }
}

TEST_P(LinearParity, TheSameBitsForAnyNumberOfThreads) {
  const LinearCase c = linear_cases(kTokenDtypes).front();
  std::vector<TestTensor> all;
  for (const int threads : {1, 2, 7}) {
    Context with_threads = context();
    with_threads.num_threads = threads;
    expect_linear(c, [&](LinearTensors& t) {
      throw_if_error(linear(with_threads, t.args(c)));
      all.push_back(t.out);
    });
    EXPECT_TRUE(same_bits(all.back(), all.front())) << threads;
  }
}

}  // namespace
}  // namespace vsa::test
