// The coarse stage of one query tile: one row of scores, one row of output. Host-only.
#include "src/cpu/coarse_kernel.h"

#include <limits>
#include <numbers>

#include "src/cpu/float_buffer.h"
#include "src/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/coarse_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/exp-inl.h"
#include "src/cpu/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void CoarseScoresRow(const PooledKv& kv, const float* q, float scale, float* scores) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const FloatTag d;
  const int64_t num_tiles = kv.plan->num_tiles();
  const int64_t cols = RoundUpLanes(num_tiles);
  Gemm({.data = q, .row_stride = 0}, 1, {.data = kv.k_packed, .k = kv.head_dim, .cols = cols},
       scores, cols, Store::kOverwrite);
  for (int64_t j = 0; j < cols; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, scores + j), hn::Set(d, scale)), d, scores + j);
  }
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
  Gemm({.data = weights, .row_stride = 0}, 1,
       {.data = kv.v, .k = num_tiles, .cols = out_cols, .row_stride = round_up_lanes(kv.head_dim)},
       out, out_cols, Store::kOverwrite);
  const FloatVec inverse = hn::Div(hn::Set(d, 1.0F), hn::SumOfLanes(d, sum));
  for (int64_t j = 0; j < out_cols; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, out + j), inverse), d, out + j);
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
