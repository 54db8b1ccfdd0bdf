// Brings fp32 rows into panels; see MatrixB for the layout. Host-only.
#include "src/cpu/support/pack.h"

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/support/pack.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void PackTransposed(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* to) {
  const int64_t cols = RoundUpLanes(count);
  for (int64_t first = 0; first < cols; first += kPanelCols) {
    const int64_t width = std::min(kPanelCols, cols - first);
    const int64_t valid = std::min(width, count - first);
    const float* rows = from + first * ld;
    for (int64_t d = 0; d < head_dim; ++d, to += width) {
      for (int64_t i = 0; i < valid; ++i) to[i] = rows[i * ld + d];
      for (int64_t i = valid; i < width; ++i) to[i] = 0.0F;
    }
  }
}

void PackRows(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* to) {
  const FloatTag d;
  const int64_t cols = RoundUpLanes(head_dim);
  for (int64_t first = 0; first < cols; first += kPanelCols) {
    const int64_t width = std::min(kPanelCols, cols - first);
    for (int64_t i = 0; i < count; ++i, to += width) {
      for (int64_t j = 0; j < width; j += kLanes) {
        hn::StoreU(hn::LoadU(d, from + i * ld + first + j), d, to + j);
      }
    }
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(PackTransposed);
void pack_transposed(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* to) {
  VSA_CPU_DISPATCH(PackTransposed)(from, ld, count, head_dim, to);
}

HWY_EXPORT(PackRows);
void pack_rows(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* to) {
  VSA_CPU_DISPATCH(PackRows)(from, ld, count, head_dim, to);
}

}  // namespace vsa::cpu
#endif
