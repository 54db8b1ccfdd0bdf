// LayerNorm with adaLN modulation, and RMSNorm; rows of f32. Host-only.
#include "runtime/nn/norm.h"

#include <cmath>

#include "runtime/nn/multiversion.h"

namespace vsa::nn {

VSA_MULTIVERSION void layer_norm(const LayerNormArgs& args) {
  const int64_t width = args.width;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * width;
    float* y = args.y + r * width;
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const float mean = sum / static_cast<float>(width);
    // Two passes: E[x^2] - mean^2 would cancel for a residual stream with a large mean.
    float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.eps);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      y[i] = (x[i] - mean) * rstd * args.scale[i] + args.shift[i];
    }
  }
}

VSA_MULTIVERSION void rms_norm(const RmsNormArgs& args) {
  const int64_t width = args.width;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * width;
    float* y = args.y + r * width;
    float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.eps);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] * rstd * args.weight[i];
  }
}

}  // namespace vsa::nn
