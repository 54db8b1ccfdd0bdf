// Attention with a bias for each distance, of one query. Host-only.
#include "src/cpu/relative_attention/relative_attention_kernel.h"

#include <limits>
#include <numbers>

#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/relative_attention/relative_attention_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/exp-inl.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void RelativeAttentionRow(const RelativeKv& kv, const float* q, float scale, const float* bias,
                          float* scores, float* out) {
  const FloatTag d;
  const int64_t cols = RoundUpLanes(kv.num_keys);  // as pack_transposed rounds
  const int64_t out_cols = round_up_lanes(kv.head_dim);
  Gemm({.data = q, .row_stride = 0}, 1, {.data = kv.k_packed, .k = kv.head_dim, .cols = cols},
       scores, cols, Store::kOverwrite);
  // Columns without a key are 0 so far, and their bias is -inf.
  FloatVec max = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t j = 0; j < cols; j += kLanes) {
    const FloatVec score =
        hn::MulAdd(hn::LoadU(d, scores + j), hn::Set(d, scale), hn::LoadU(d, bias + j));
    max = hn::Max(max, score);
    hn::StoreU(score, d, scores + j);
  }
  max = hn::MaxOfLanes(d, max);
  // -inf - -inf would be NaN: a row of -inf stays one, and its weights become 0.
  const FloatVec lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  max = hn::IfThenElse(hn::Lt(max, lowest), hn::Zero(d), max);
  FloatVec sum = hn::Zero(d);
  for (int64_t j = 0; j < cols; j += kLanes) {
    const FloatVec below = hn::Sub(hn::LoadU(d, scores + j), max);
    const FloatVec weight = Exp2(d, hn::Mul(below, hn::Set(d, std::numbers::log2e_v<float>)));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, d, scores + j);
  }
  sum = hn::SumOfLanes(d, sum);
  const FloatVec inverse =
      hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), sum, hn::Div(hn::Set(d, 1.0F), sum));
  Gemm({.data = scores, .row_stride = 0}, 1,
       {.data = kv.v, .k = kv.num_keys, .cols = out_cols, .row_stride = out_cols}, out, out_cols,
       Store::kOverwrite);
  for (int64_t c = 0; c < out_cols; c += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, out + c), inverse), d, out + c);
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(RelativeAttentionRow);
void relative_attention_row(const RelativeKv& kv, const float* q, float scale, const float* bias,
                            float* scores, float* out) {
  VSA_CPU_DISPATCH(RelativeAttentionRow)(kv, q, scale, bias, scores, out);
}

}  // namespace vsa::cpu
#endif
