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

/// Elements like 1.5 (1 + 2^-12). Rounding to bf16 leaves a multiple of 1/2, so sums of products of
/// the rounded elements are exact in f32. Every backend that rounds as CoarseRounding::kBf16 says
/// then gets the same scores.
TestTensor few_bits_tensor(DType dtype, Dims dims, uint64_t seed, Order order = Order::kBshd);

/// q and k of few bits and the same for all tokens of a tile, so that means are exact, too; v from
/// N(0, 1).
Qkv few_bits_qkv(DType dtype, const Heads& heads, const TilePlan& q_plan, const TilePlan& kv_plan,
                 Order order = Order::kBshd);

/// Rows of random length with random tiles; among them, if there are two rows, an empty and a full
/// one.
LutBuffer random_lut(const Heads& heads, int64_t num_q_tiles, int64_t num_kv_tiles, uint64_t seed);

}  // namespace vsa::test
