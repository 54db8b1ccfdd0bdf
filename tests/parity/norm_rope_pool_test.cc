// Parity of norm_rope_pool, which tests/support/norm_rope_pool.cc says how to compare.
#include "tests/support/norm_rope_pool.h"

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class NormRopePoolParity : public ParityTest {};
VSA_PARITY(NormRopePoolParity);

TEST_P(NormRopePoolParity, EveryNorm) {
  VSA_NEEDS(norm_rope_pool);
  for (const TilePlan& plan : {shape().q_plan(), shape().q_plan().in_tile_order()}) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(name(dtype));
      const TestTensor x = token_tensor(dtype, shape().heads, plan, 3, shape().order);
      for (const NormRopePoolExtras& extras : norm_rope_pool_extras()) {
        SCOPED_TRACE(static_cast<int>(extras.norm));
        expect_norm_rope_pool(x, plan, extras, [&](NormRopePoolTensors& t) {
          throw_if_error(norm_rope_pool(context(), t.args(plan, extras)));
        });
      }
    }
  }
}

/// What it pools is what it stored, to the bit where `pool` of the same backend says so.
TEST_P(NormRopePoolParity, PooledIsPoolOfWhatWasStored) {
  VSA_NEEDS(norm_rope_pool);
  const TilePlan plan = shape().q_plan();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    NormRopePoolTensors t = norm_rope_pool_tensors(like_q(dtype, 3), plan, NormOver::kAllHeads);
    const NormRopePoolExtras extras{
        .norm = NormOver::kAllHeads, .weight = true, .rstd = false, .angles = true, .pooled = true};
    throw_if_error(norm_rope_pool(context(), t.args(plan, extras)));
    TestTensor again = t.pooled;
    throw_if_error(pool(context(), {.x = t.x.view(), .plan = &plan, .pooled = again.view()}));
    EXPECT_TRUE(same_bits(again, t.pooled));
  }
}

/// All heads of a tile are one thread's work.
TEST_P(NormRopePoolParity, TheSameBitsForAnyNumberOfThreads) {
  VSA_NEEDS(norm_rope_pool);
  const TilePlan plan = shape().q_plan();
  for (const NormRopePoolExtras& extras : norm_rope_pool_extras()) {
    std::vector<NormRopePoolTensors> all;
    for (const int threads : {1, 2, 7}) {
      Context with_threads = context();
      with_threads.num_threads = threads;
      all.push_back(norm_rope_pool_tensors(like_q(DType::kBF16, 3), plan, extras.norm));
      throw_if_error(norm_rope_pool(with_threads, all.back().args(plan, extras)));
      EXPECT_TRUE(same_bits(all.back().x, all.front().x)) << threads;
      EXPECT_TRUE(same_bits(all.back().pooled, all.front().pooled)) << threads;
    }
  }
}

}  // namespace
}  // namespace vsa::test
