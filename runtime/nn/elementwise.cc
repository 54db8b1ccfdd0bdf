// Elementwise operations on f32 arrays. Host-only.
#include "runtime/nn/elementwise.h"

#include <cmath>

#include "runtime/nn/multiversion.h"

namespace vsa::nn {

VSA_MULTIVERSION void gated_residual(const GatedResidualArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    float* x = args.x + r * args.width;
    const float* y = args.y + r * args.width;
#pragma omp simd
    for (int64_t i = 0; i < args.width; ++i) x[i] += args.gate[i] * y[i];
  }
}

VSA_MULTIVERSION void add(std::span<float> x, std::span<const float> y) {
  float* const px = x.data();
  const float* const py = y.data();
#pragma omp simd
  for (size_t i = 0; i < x.size(); ++i) px[i] += py[i];
}

VSA_MULTIVERSION void multiply(std::span<float> x, std::span<const float> y) {
  float* const px = x.data();
  const float* const py = y.data();
#pragma omp simd
  for (size_t i = 0; i < x.size(); ++i) px[i] *= py[i];
}

void silu(std::span<float> x) {
  for (float& v : x) v = v / (1.0F + std::exp(-v));
}

VSA_MULTIVERSION bool all_finite(std::span<const float> x) {
  // 0 * x is 0 for a finite x and NaN otherwise; one sum, no branch.
  float sum = 0.0F;
  const float* const p = x.data();
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < x.size(); ++i) sum += 0.0F * p[i];
  return sum == 0.0F;
}

}  // namespace vsa::nn
