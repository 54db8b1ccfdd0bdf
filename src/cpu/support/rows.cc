// Moves tiles between tensors and fp32 scratch: load, mean, store. Host-only.
#include "src/cpu/support/rows.h"

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/support/rows.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void LoadRows(const Rows& rows, int64_t head_dim, float* to, int64_t ld) {
  VisitDType(rows.dtype, [&]<class T>(T*) {
    for (int64_t i = 0; i < rows.count; ++i) {
      prefetch_row(rows, i + kPrefetchRows, head_dim);
      const T* from = static_cast<const T*>(rows.at(i));
      float* row = to + i * ld;
      ForEachVector(head_dim,
                    [&](auto d, int64_t j) { hn::StoreU(LoadF32(d, from + j), d, row + j); });
      for (int64_t j = head_dim; j < ld; ++j) row[j] = 0.0F;
    }
  });
}

void StoreRows(const float* from, int64_t ld, int64_t head_dim, const MutableRows& rows) {
  VisitDType(rows.dtype, [&]<class T>(T*) {
    for (int64_t i = 0; i < rows.count; ++i) {
      T* to = static_cast<T*>(rows.at(i));
      ForEachVector(head_dim, [&](auto d, int64_t j) {
        StoreF32(d, hn::LoadU(d, from + i * ld + j), to + j);
      });
    }
  });
}

void MeanOfRows(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* mean) {
  const float len = static_cast<float>(count);
  ForEachVector(head_dim, [&](auto d, int64_t j) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) sum = hn::Add(sum, hn::LoadU(d, from + i * ld + j));
    if (count > 0) sum = hn::Div(sum, hn::Set(d, len));
    hn::StoreU(sum, d, mean + j);
  });
}

void ScaleRows(float* x, int64_t n, float factor) {
  ForEachVector(n, [&](auto d, int64_t j) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, factor)), d, x + j);
  });
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(LoadRows);
void load_rows(const Rows& rows, int64_t head_dim, float* to, int64_t ld) {
  VSA_CPU_DISPATCH(LoadRows)(rows, head_dim, to, ld);
}

HWY_EXPORT(StoreRows);
void store_rows(const float* from, int64_t ld, int64_t head_dim, const MutableRows& rows) {
  VSA_CPU_DISPATCH(StoreRows)(from, ld, head_dim, rows);
}

HWY_EXPORT(MeanOfRows);
void mean_of_rows(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* mean) {
  VSA_CPU_DISPATCH(MeanOfRows)(from, ld, count, head_dim, mean);
}

HWY_EXPORT(ScaleRows);
void scale_rows(float* x, int64_t n, float factor) { VSA_CPU_DISPATCH(ScaleRows)(x, n, factor); }

}  // namespace vsa::cpu
#endif
