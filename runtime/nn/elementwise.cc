// Elementwise operations on f32 arrays. Host-only.
#include "runtime/nn/elementwise.h"

#include <cmath>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/elementwise.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {

void GatedResidual(const GatedResidualArgs& args) {
  record_target(HWY_TARGET);
  for (int64_t r = 0; r < args.rows; ++r) {
    float* x = args.x + r * args.width;
    const float* y = args.y + r * args.width;
    ForEachVector(args.width, [&](auto d, int64_t i) {
      const auto gate = hn::LoadU(d, args.gate + i);
      hn::StoreU(hn::MulAdd(gate, hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, x + i);
    });
  }
}

void Add(float* x, const float* y, int64_t n) {
  record_target(HWY_TARGET);
  ForEachVector(n, [&](auto d, int64_t i) {
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, x + i);
  });
}

void Multiply(float* x, const float* y, int64_t n) {
  record_target(HWY_TARGET);
  ForEachVector(n, [&](auto d, int64_t i) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, x + i);
  });
}

bool AllFinite(const float* x, int64_t n) {
  record_target(HWY_TARGET);
  // 0 * x is 0 for a finite x and NaN otherwise; one sum, no branch.
  return SumOver(n, [&](auto d, int64_t i) { return hn::Mul(hn::Zero(d), hn::LoadU(d, x + i)); }) ==
         0.0F;
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {

HWY_EXPORT(GatedResidual);
void gated_residual(const GatedResidualArgs& args) { VSA_NN_DISPATCH(GatedResidual)(args); }

HWY_EXPORT(Add);
void add(std::span<float> x, std::span<const float> y) {
  VSA_NN_DISPATCH(Add)(x.data(), y.data(), std::ssize(x));
}

HWY_EXPORT(Multiply);
void multiply(std::span<float> x, std::span<const float> y) {
  VSA_NN_DISPATCH(Multiply)(x.data(), y.data(), std::ssize(x));
}

void silu(std::span<float> x) {
  for (float& v : x) v = v / (1.0F + std::exp(-v));
}

HWY_EXPORT(AllFinite);
bool all_finite(std::span<const float> x) {
  return VSA_NN_DISPATCH(AllFinite)(x.data(), std::ssize(x));
}

}  // namespace vsa::nn
#endif
