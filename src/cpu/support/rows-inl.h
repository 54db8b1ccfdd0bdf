// Loads and stores vectors of f32, bf16 and f16 as f32. Host-only.
#if defined(VSA_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VSA_CPU_ROWS_INL_H_
#undef VSA_CPU_ROWS_INL_H_
#else
#define VSA_CPU_ROWS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "vsa/half.h"
#include "vsa/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadF32(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadF32(D d, const BF16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadF32(D d, const F16* from) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // Highway's conversion in software knows neither infinity nor NaN.
  HWY_ALIGN float converted[hn::MaxLanes(d)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) converted[i] = static_cast<float>(from[i]);
  return hn::Load(d, converted);
#else
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

template <class D, class V>
HWY_INLINE void StoreF32(D d, V v, float* to) {
  hn::StoreU(v, d, to);
}
// Rounds to nearest even, as BF16 does; Highway's DemoteTo truncates.
template <class D, class V>
HWY_INLINE void StoreF32(D /*d*/, V v, BF16* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFFU))));
  const auto nan = hn::Or(high, hn::Set(d32, 0x40U));  // a mantissa bit keeps it a NaN
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  hn::StoreU(hn::TruncateTo(d16, hn::IfThenElse(is_nan, nan, rounded)), d16,
             reinterpret_cast<uint16_t*>(to));
}
template <class D, class V>
HWY_INLINE void StoreF32([[maybe_unused]] D d, V v, F16* to) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(v, d, values);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = F16(values[i]);
#else
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(to));
#endif
}

/// Calls visit(tag, i) for i = 0, lanes, ... below n, a multiple of 8: with full vectors, and with
/// half ones for what is left where a vector has 16 lanes.
template <class Visit>
HWY_INLINE void ForEachVector(int64_t n, const Visit& visit) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 8> d8;
  int64_t i = 0;
  for (; i + static_cast<int64_t>(hn::Lanes(d)) <= n; i += static_cast<int64_t>(hn::Lanes(d))) {
    visit(d, i);
  }
  for (; i < n; i += static_cast<int64_t>(hn::Lanes(d8))) visit(d8, i);
}

/// Calls visit(p) with a null pointer to the C++ type of that token dtype.
template <class Visit>
HWY_INLINE void VisitDType(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kBF16:
      visit(static_cast<BF16*>(nullptr));
      return;
    case DType::kF16:
      visit(static_cast<F16*>(nullptr));
      return;
    default:  // f64 is refused by validation
      visit(static_cast<float*>(nullptr));
      return;
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
