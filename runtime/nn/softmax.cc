// The softmax of the rows of a matrix. Host-only.
#include "runtime/nn/softmax.h"

#include <algorithm>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/softmax.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {

void SoftmaxRows(float* x, int64_t rows, int64_t width, float scale) {
  record_target(HWY_TARGET);
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = x + r * width;
    const float largest = *std::max_element(row, row + width);
    ForEachVector(width, [&](auto d, int64_t i) {
      const auto below = hn::Sub(hn::LoadU(d, row + i), hn::Set(d, largest));
      const auto scaled = hn::Mul(below, hn::Set(d, scale));
      // Exp of a NaN would be a number.
      hn::StoreU(hn::IfThenElse(hn::IsNaN(scaled), scaled, hn::Exp(d, scaled)), d, row + i);
    });
    const float sum = SumOver(width, [&](auto d, int64_t i) { return hn::LoadU(d, row + i); });
    const float inverse = 1.0F / sum;
    ForEachVector(width, [&](auto d, int64_t i) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, inverse)), d, row + i);
    });
  }
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {

HWY_EXPORT(SoftmaxRows);
void softmax_rows(float* x, int64_t rows, int64_t width, float scale) {
  VSA_NN_DISPATCH(SoftmaxRows)(x, rows, width, scale);
}

}  // namespace vsa::nn
#endif
