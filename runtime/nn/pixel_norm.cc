// The norm of Wan's VAE over the channels of each pixel, with or without SiLU after it. Host-only.
#include "runtime/nn/pixel_norm.h"

#include <cmath>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/pixel_norm.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {
namespace {

/// The number that a pixel's channels are multiplied with.
HWY_INLINE float PixelScale(const float* x, int64_t channels) {
  constexpr float kLeast = 1e-12F;  // a pixel of zeros stays zeros
  const float squares = SumOver(channels, [&](auto d, int64_t i) {
    const auto value = hn::LoadU(d, x + i);
    return hn::Mul(value, value);
  });
  const float norm = std::sqrt(squares);
  // Not std::max, which may drop a NaN.
  return std::sqrt(static_cast<float>(channels)) / (norm < kLeast ? kLeast : norm);
}

/// @param activate  called with (tag, vector)
template <class Activate>
HWY_INLINE void NormPixels(const PixelNormArgs& args, const Activate& activate) {
  record_target(HWY_TARGET);
  for (int64_t p = 0; p < args.pixels; ++p) {
    const float* x = args.x + p * args.channels;
    float* y = args.y + p * args.channels;
    const float scale = PixelScale(x, args.channels);
    ForEachVector(args.channels, [&](auto d, int64_t i) {
      const auto normalised = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
      hn::StoreU(activate(d, hn::Mul(normalised, hn::LoadU(d, args.gamma + i))), d, y + i);
    });
  }
}

}  // namespace

void PixelNorm(const PixelNormArgs& args) {
  NormPixels(args, [](auto /*d*/, auto v) { return v; });
}

void PixelNormSilu(const PixelNormArgs& args) {
  NormPixels(args, [](auto d, auto v) {
    // exp of more than 88 is beyond the range of f32; x / exp(88) is practically zero.
    const auto power = hn::Exp(d, hn::Min(hn::Neg(v), hn::Set(d, 88.0F)));
    // A NaN stays one: it is the numerator.
    return hn::Div(v, hn::Add(hn::Set(d, 1.0F), power));
  });
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {

HWY_EXPORT(PixelNorm);
void pixel_norm(const PixelNormArgs& args) { VSA_NN_DISPATCH(PixelNorm)(args); }

HWY_EXPORT(PixelNormSilu);
void pixel_norm_silu(const PixelNormArgs& args) { VSA_NN_DISPATCH(PixelNormSilu)(args); }

}  // namespace vsa::nn
#endif
