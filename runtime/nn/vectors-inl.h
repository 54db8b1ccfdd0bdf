// Loops over arrays of any length in vectors: each element of the map, and the sum. Host-only.
#if defined(VSA_RUNTIME_NN_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VSA_RUNTIME_NN_VECTORS_INL_H_
#undef VSA_RUNTIME_NN_VECTORS_INL_H_
#else
#define VSA_RUNTIME_NN_VECTORS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Floats of a full vector.
HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

/// Calls visit(tag, i) for the elements i... of [0, n): a full vector at a time, and what is left
/// one element at a time.
template <class Visit>
HWY_INLINE void ForEachVector(int64_t n, const Visit& visit) {
  const hn::ScalableTag<float> d;
  int64_t i = 0;
  for (; i + Lanes() <= n; i += Lanes()) visit(d, i);
  const hn::CappedTag<float, 1> d1;
  for (; i < n; ++i) visit(d1, i);
}

/// The sum of term(tag, i) over [0, n), in an order that depends on n and the vector length alone.
/// Four sums at a time: one alone would wait for every addition.
template <class Term>
HWY_INLINE float SumOver(int64_t n, const Term& term) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = Lanes();
  auto sum0 = hn::Zero(d);
  auto sum1 = sum0;
  auto sum2 = sum0;
  auto sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, term(d, i));
    sum1 = hn::Add(sum1, term(d, i + lanes));
    sum2 = hn::Add(sum2, term(d, i + 2 * lanes));
    sum3 = hn::Add(sum3, term(d, i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, term(d, i));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  const hn::CappedTag<float, 1> d1;
  for (; i < n; ++i) sum += hn::GetLane(term(d1, i));
  return sum;
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
