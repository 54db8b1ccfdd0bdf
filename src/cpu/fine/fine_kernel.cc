// The fine stage of one query tile: online softmax over the kv tiles of its LUT row. Host-only.
//
//   for each kv tile:  S = Q K^T  [rows, keys]     in scratch, base-2 logarithms
//                      m' = max(m, row max of S)
//                      P = 2^(S - m')              in place of S
//                      if m' > m: O *= 2^(m - m'), l *= 2^(m - m')
//                      O += P V  [rows, head_dim],  l += row sum of P
//   out = O / l,  lse = (m + log2 l) ln 2
//
// Of the attention matrix only S and P of one pair of tiles are ever in memory. The row sums l are
// kept as vectors of partial sums until the end.
#include "src/cpu/fine/fine_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/cpu/support/isa.h"
#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/fine/fine_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/exp-inl.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

void ScaleRow(float* row, int64_t n, float factor) {
  const FloatTag d;
  for (int64_t j = 0; j < n; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + j), hn::Set(d, factor)), d, row + j);
  }
}

/// Scores beyond the last key become -inf, so that they weigh nothing.
void MaskTail(float* scores, int64_t num_rows, int64_t ld, int64_t num_keys) {
  for (int64_t r = 0; r < num_rows; ++r) {
    std::fill(scores + r * ld + num_keys, scores + r * ld + RoundUpLanes(num_keys), -kInf);
  }
}

/// The running softmax of one row.
struct RowState {
  float* max;  ///< base-2 logarithm
  float* sum;  ///< kLanes partial sums
  float* out;
};

/// Turns a row of scores into weights and brings what was summed before to the new maximum.
HWY_INLINE void SoftmaxRow(float* HWY_RESTRICT scores, int64_t cols, int64_t out_cols,
                           const RowState& row) {
  const FloatTag d;
  FloatVec max = hn::LoadU(d, scores);
  for (int64_t j = kLanes; j < cols; j += kLanes) max = hn::Max(max, hn::LoadU(d, scores + j));
  const float new_max = std::max(*row.max, hn::GetLane(hn::MaxOfLanes(d, max)));
  if (new_max > *row.max) {
    const float factor = hn::GetLane(Exp2(d, hn::Set(d, *row.max - new_max)));
    *row.max = new_max;
    ScaleRow(row.sum, kLanes, factor);
    ScaleRow(row.out, out_cols, factor);
  }
  const FloatVec base = hn::Set(d, new_max);
  FloatVec sum = hn::LoadU(d, row.sum);
  for (int64_t j = 0; j < cols; j += kLanes) {
    const FloatVec weight = Exp2(d, hn::Sub(hn::LoadU(d, scores + j), base));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, d, scores + j);
  }
  hn::StoreU(sum, d, row.sum);
}

}  // namespace

void FineOfTile(const PackedKv& kv, const FineTile& tile, float* scratch, float* out, float* lse) {
  record_target(HWY_TARGET);
  const FloatTag d;
  const int64_t out_cols = RoundUpLanes(kv.head_dim);
  const int64_t ld_out = round_up_lanes(kv.head_dim);
  const int64_t ld = round_up_lanes(kv.plan->tile_tokens());
  float* scores = scratch;                   // [num_rows, ld]
  float* max = scores + tile.num_rows * ld;  // [num_rows]
  float* sum = max + tile.num_rows;          // [num_rows, kLanes]
  std::fill_n(max, tile.num_rows, -kInf);
  std::fill_n(sum, tile.num_rows * kLanes, 0.0F);
  std::fill_n(out, tile.num_rows * ld_out, 0.0F);

  for (const int32_t j : tile.kv_tiles) {
    const int64_t num_keys = kv.plan->tile_len(j);
    if (num_keys == 0) continue;
    const int64_t cols = RoundUpLanes(num_keys);
    Gemm({.data = tile.q, .row_stride = kv.head_dim}, tile.num_rows,
         {.data = kv.k + j * kv.k_tile_stride, .k = kv.head_dim, .cols = cols}, scores, ld,
         Store::kOverwrite);
    if (cols != num_keys) MaskTail(scores, tile.num_rows, ld, num_keys);
    for (int64_t r = 0; r < tile.num_rows; ++r) {
      SoftmaxRow(scores + r * ld, cols, out_cols,
                 {.max = max + r, .sum = sum + r * kLanes, .out = out + r * ld_out});
    }
    Gemm({.data = scores, .row_stride = ld}, tile.num_rows,
         {.data = kv.v + j * kv.v_tile_stride, .k = num_keys, .cols = out_cols}, out, ld_out,
         Store::kAdd);
  }

  for (int64_t r = 0; r < tile.num_rows; ++r) {
    const float total = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sum + r * kLanes)));
    lse[r] = (max[r] + std::log2(total)) * std::numbers::ln2_v<float>;
    if (total != 0.0F) ScaleRow(out + r * ld_out, out_cols, 1.0F / total);
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(FineOfTile);
void fine_tile(const PackedKv& kv, const FineTile& tile, float* scratch, float* out, float* lse) {
  VSA_CPU_DISPATCH(FineOfTile)(kv, tile, scratch, out, lse);
}

}  // namespace vsa::cpu
#endif
