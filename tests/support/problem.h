// Seeded inputs of attention problems.
#pragma once

#include "tests/support/run.h"

namespace vsa::test {

/// What tensors a problem has, besides its tile plans.
struct Heads {
  int64_t batch = 1;
  int64_t num_heads = 1;
  int64_t num_kv_heads = 1;
  int64_t head_dim = 8;
};

/// A token tensor from N(0, sigma^2) for `plan`; padding, if the plan has any, is NaN.
TestTensor token_tensor(DType dtype, const Heads& heads, const TilePlan& plan, uint64_t seed,
                        Order order = Order::kBshd, double sigma = 1.0);

/// q, k and v from N(0, 1); padding is NaN.
Qkv make_qkv(DType dtype, const Heads& heads, const TilePlan& q_plan, const TilePlan& kv_plan,
             uint64_t seed, Order order = Order::kBshd);

/// Rows of random length with random tiles; among them, if there are two rows, an empty and a full
/// one.
LutBuffer random_lut(const Heads& heads, int64_t num_q_tiles, int64_t num_kv_tiles, uint64_t seed);

}  // namespace vsa::test
