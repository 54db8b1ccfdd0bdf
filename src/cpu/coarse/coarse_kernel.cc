// The coarse stage of one query tile: one row of scores, one row of output. Host-only.
#include "src/cpu/coarse/coarse_kernel.h"

#include <limits>
#include <numbers>

#include "src/cpu/coarse/round_bf16.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/coarse/coarse_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/exp-inl.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void CoarseScoresRow(const PooledKv& kv, const float* q, float scale, float* scores) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const FloatTag d;
  const int64_t num_tiles = kv.plan->num_tiles();
  const int64_t cols = RoundUpLanes(num_tiles);
  Gemm({.data = q, .row_stride = 0}, 1, {.data = kv.k_packed, .k = kv.head_dim, .cols = cols},
       scores, cols, Store::kOverwrite);
  round_row(kv.rounding, scores, num_tiles);
  for (int64_t j = 0; j < cols; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, scores + j), hn::Set(d, scale)), d, scores + j);
  }
  round_row(kv.rounding, scores, num_tiles);
  for (int64_t j = 0; j < num_tiles; ++j) {
    if (kv.plan->tile_len(j) == 0) scores[j] = -kInf;
  }
  for (int64_t j = num_tiles; j < cols; ++j) scores[j] = -kInf;
}

void CoarseOutRow(const PooledKv& kv, const float* scores, float* weights, float* out) {
  const FloatTag d;
  const int64_t num_tiles = kv.plan->num_tiles();
  const int64_t out_cols = RoundUpLanes(kv.head_dim);
  if (kv.plan->num_valid_tokens() == 0) {
    for (int64_t j = 0; j < out_cols; ++j) out[j] = 0.0F;
    return;
  }
  const int64_t cols = RoundUpLanes(num_tiles);
  FloatVec max = hn::LoadU(d, scores);
  for (int64_t j = kLanes; j < cols; j += kLanes) max = hn::Max(max, hn::LoadU(d, scores + j));
  max = hn::MaxOfLanes(d, max);
  FloatVec sum = hn::Zero(d);
  for (int64_t j = 0; j < cols; j += kLanes) {
    const FloatVec below = hn::Sub(hn::LoadU(d, scores + j), max);
    const FloatVec weight = Exp2(d, hn::Mul(below, hn::Set(d, std::numbers::log2e_v<float>)));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, d, weights + j);
  }
  const FloatVec inverse = hn::Div(hn::Set(d, 1.0F), hn::SumOfLanes(d, sum));
  const auto normalise = [&](float* x, int64_t n) HWY_ATTR {
    for (int64_t j = 0; j < n; j += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + j), inverse), d, x + j);
    }
  };
  // Probabilities that are rounded have to be there before the product, not after it.
  const bool rounds = kv.rounding != CoarseRounding::kNone;
  if (rounds) {
    normalise(weights, cols);
    round_row(kv.rounding, weights, num_tiles);
  }
  Gemm({.data = weights, .row_stride = 0}, 1,
       {.data = kv.v, .k = num_tiles, .cols = out_cols, .row_stride = round_up_lanes(kv.head_dim)},
       out, out_cols, Store::kOverwrite);
  if (rounds) {
    round_row(kv.rounding, out, kv.head_dim);
  } else {
    normalise(out, out_cols);
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(CoarseScoresRow);
void coarse_scores_row(const PooledKv& kv, const float* q, float scale, float* scores) {
  VSA_CPU_DISPATCH(CoarseScoresRow)(kv, q, scale, scores);
}

HWY_EXPORT(CoarseOutRow);
void coarse_out_row(const PooledKv& kv, const float* scores, float* weights, float* out) {
  VSA_CPU_DISPATCH(CoarseOutRow)(kv, scores, weights, out);
}

}  // namespace vsa::cpu
#endif
