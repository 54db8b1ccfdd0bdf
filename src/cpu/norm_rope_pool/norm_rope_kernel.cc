// RMSNorm and rotary embedding of one head of a tile. Host-only.
#include "src/cpu/norm_rope_pool/norm_rope_kernel.h"

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/norm_rope_pool/norm_rope_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void AddSquares(const float* rows, int64_t count, int64_t head_dim, float* sums) {
  for (int64_t i = 0; i < count; ++i) {
    const float* row = rows + i * head_dim;
    ForEachVector(head_dim, [&](auto d, int64_t j) {
      const auto x = hn::LoadU(d, row + j);
      sums[i] += hn::GetLane(hn::SumOfLanes(d, hn::Mul(x, x)));
    });
  }
}

void NormRopeRows(const NormRopeTile& tile) {
  for (int64_t i = 0; i < tile.count; ++i) {
    float* row = tile.rows + i * tile.head_dim;
    ForEachVector(tile.head_dim, [&](auto d, int64_t j) {
      auto x = hn::LoadU(d, row + j);
      if (tile.rstd != nullptr) x = hn::Mul(x, hn::Set(d, tile.rstd[i]));
      if (tile.weight != nullptr) x = hn::Mul(x, hn::LoadU(d, tile.weight + j));
      hn::StoreU(x, d, row + j);
    });
    if (tile.cos == nullptr) continue;
    // A plain loop, which the compiler vectorises: a vector of the baseline target may hold a
    // single number, and so no pair.
    const float* cos = tile.cos + i * tile.head_dim / 2;
    const float* sin = tile.sin + i * tile.head_dim / 2;
    for (int64_t j = 0; j < tile.head_dim / 2; ++j) {
      const float a = row[2 * j];
      const float b = row[2 * j + 1];
      row[2 * j] = a * cos[j] - b * sin[j];
      row[2 * j + 1] = a * sin[j] + b * cos[j];
    }
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(AddSquares);
void add_squares(const float* rows, int64_t count, int64_t head_dim, float* sums) {
  VSA_CPU_DISPATCH(AddSquares)(rows, count, head_dim, sums);
}

HWY_EXPORT(NormRopeRows);
void norm_rope_rows(const NormRopeTile& tile) { VSA_CPU_DISPATCH(NormRopeRows)(tile); }

}  // namespace vsa::cpu
#endif
