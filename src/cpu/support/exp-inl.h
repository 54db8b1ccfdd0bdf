// 2^x on vectors, the one exponential of the CPU backend. Host-only.
#if defined(VSA_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VSA_CPU_EXP_INL_H_
#undef VSA_CPU_EXP_INL_H_
#else
#define VSA_CPU_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

/// 2^x for x <= 127, with a relative error below 2.5e-7; exactly 1 at 0, 0 below -126 (no
/// denormals), NaN for NaN. Highway's own Exp has a wider range and takes about twice the
/// instructions.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  // Adding 1.5 * 2^23 rounds x to an integer n and leaves n in the low bits of the sum.
  const V magic = hn::Set(d, 12582912.0F);
  const V shifted = hn::Add(x, magic);
  const V f = hn::Sub(x, hn::Sub(shifted, magic));  // in [-0.5, 0.5]
  // 2^f as 1 + f q(f): the minimax polynomial of its relative error, 9.2e-8 before rounding.
  V p = hn::Set(d, 0.0013264727F);
  p = hn::MulAdd(p, f, hn::Set(d, 0.0096715126F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555073373F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.2402224209F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931469776F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  // Times 2^n: n is added to the exponent. A NaN's low bits are 0, so it stays a NaN.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const V y = hn::BitCast(d, hn::Add(hn::BitCast(du, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), y);
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
