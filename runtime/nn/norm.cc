// LayerNorm with adaLN modulation, and RMSNorm. Host-only.
#include "runtime/nn/norm.h"

#include <cmath>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/norm.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {

void LayerNorm(const LayerNormArgs& args) {
  record_target(HWY_TARGET);
  const int64_t width = args.width;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * width;
    float* y = args.y + r * width;
    const float mean = SumOver(width, [&](auto d, int64_t i) { return hn::LoadU(d, x + i); }) /
                       static_cast<float>(width);
    // Two passes: E[x^2] - mean^2 would cancel for a residual stream with a large mean.
    const float squares = SumOver(width, [&](auto d, int64_t i) {
      const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      return hn::Mul(centred, centred);
    });
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.eps);
    ForEachVector(width, [&](auto d, int64_t i) {
      const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      const auto scale = hn::LoadU(d, args.scale + i);
      const auto shift = hn::LoadU(d, args.shift + i);
      hn::StoreU(hn::MulAdd(hn::Mul(centred, hn::Set(d, rstd)), scale, shift), d, y + i);
    });
  }
}

void RmsNorm(const RmsNormArgs& args) {
  record_target(HWY_TARGET);
  const int64_t width = args.width;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * width;
    float* y = args.y + r * width;
    const float squares = SumOver(width, [&](auto d, int64_t i) {
      const auto value = hn::LoadU(d, x + i);
      return hn::Mul(value, value);
    });
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.eps);
    ForEachVector(width, [&](auto d, int64_t i) {
      const auto normalised = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd));
      hn::StoreU(hn::Mul(normalised, hn::LoadU(d, args.weight + i)), d, y + i);
    });
  }
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {

HWY_EXPORT(LayerNorm);
void layer_norm(const LayerNormArgs& args) { VSA_NN_DISPATCH(LayerNorm)(args); }

HWY_EXPORT(RmsNorm);
void rms_norm(const RmsNormArgs& args) { VSA_NN_DISPATCH(RmsNorm)(args); }

}  // namespace vsa::nn
#endif
