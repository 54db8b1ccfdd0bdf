// Elements of arrays of any dtype as double: for code that is meant to be read, not to be fast.
// Host-only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "vsa/half.h"
#include "vsa/tensor.h"

namespace vsa {

/// The half nearest to x, ties to even, in one rounding. Going through float would round twice, so
/// the float in between is rounded to odd: towards zero, last bit set if anything was cut off. The
/// bits it has more than a half (16 or 13) then decide the second step as x itself would.
template <class Half>
Half half_from_double(double x) {
  float f = static_cast<float>(x);
  if (std::abs(static_cast<double>(f)) > std::abs(x)) f = std::nextafter(f, 0.0F);
  if (static_cast<double>(f) != x) f = std::bit_cast<float>(std::bit_cast<uint32_t>(f) | 1U);
  return Half(f);
}

/// Element `i` of an array of that dtype. Exact.
inline double load_element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(static_cast<const float*>(data)[i]);
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(static_cast<const BF16*>(data)[i]));
    case DType::kF16:
      return static_cast<double>(static_cast<float>(static_cast<const F16*>(data)[i]));
    case DType::kF64:
      return static_cast<const double*>(data)[i];
  }
  return 0.0;
}

/// Stores x as element `i` of an array of that dtype, with one rounding to nearest even.
inline void store_element(void* data, DType dtype, int64_t i, double x) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      return;
    case DType::kBF16:
      static_cast<BF16*>(data)[i] = half_from_double<BF16>(x);
      return;
    case DType::kF16:
      static_cast<F16*>(data)[i] = half_from_double<F16>(x);
      return;
    case DType::kF64:
      static_cast<double*>(data)[i] = x;
      return;
  }
}

}  // namespace vsa
