// The arithmetic of residual_norm on one token, as f32. Host-only.
#include "src/cpu/residual_norm/residual_norm_kernel.h"

#include <cmath>

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/residual_norm/residual_norm_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void AddGated(float* x, const float* y, const float* gate, int64_t n) {
  ForEachVector(n, [&](auto d, int64_t i) {
    const auto branch = hn::LoadU(d, y + i);
    const auto before = hn::LoadU(d, x + i);
    const auto sum = gate == nullptr ? hn::Add(before, branch)
                                     : hn::MulAdd(hn::LoadU(d, gate + i), branch, before);
    hn::StoreU(sum, d, x + i);
  });
}

/// The mean of f(d, x_i) over all i.
template <class F>
HWY_INLINE float MeanOf(const float* x, int64_t n, const F& f) {
  const hn::CappedTag<float, 8> d8;  // its lanes divide n, so one vector of sums suffices
  auto sum = hn::Zero(d8);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d8))) {
    sum = hn::Add(sum, f(d8, hn::LoadU(d8, x + i)));
  }
  return hn::GetLane(hn::SumOfLanes(d8, sum)) / static_cast<float>(n);
}

void NormToken(const NormedToken& t) {
  const float mean =
      t.norm == NormKind::kRms ? 0.0F : MeanOf(t.x, t.n, [](auto /*d*/, auto x) { return x; });
  const float var = MeanOf(t.x, t.n, [&](auto d, auto x) {
    const auto centred = hn::Sub(x, hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  const float rstd = 1.0F / std::sqrt(var + t.eps);
  ForEachVector(t.n, [&](auto d, int64_t i) {
    const auto centred = hn::Sub(hn::LoadU(d, t.x + i), hn::Set(d, mean));
    auto out = hn::Mul(centred, hn::Set(d, rstd));
    if (t.scale != nullptr) out = hn::Mul(out, hn::LoadU(d, t.scale + i));
    if (t.shift != nullptr) out = hn::Add(out, hn::LoadU(d, t.shift + i));
    hn::StoreU(out, d, t.out + i);
  });
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(AddGated);
void add_gated(float* x, const float* y, const float* gate, int64_t n) {
  VSA_CPU_DISPATCH(AddGated)(x, y, gate, n);
}

HWY_EXPORT(NormToken);
void norm_token(const NormedToken& token) { VSA_CPU_DISPATCH(NormToken)(token); }

}  // namespace vsa::cpu
#endif
