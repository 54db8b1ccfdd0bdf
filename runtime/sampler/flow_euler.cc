// The flow-matching Euler sampler with classifier-free guidance. Host-only.
#include "runtime/sampler/flow_euler.h"

#include <fmt/format.h>

#include <cmath>

namespace vsa::sampler {

Result<std::vector<double>> flow_sigmas(int64_t steps, double shift) {
  if (steps < 1) {
    return invalid_argument(fmt::format("[sampler] steps: expected at least 1, got {}", steps));
  }
  if (!std::isfinite(shift) || shift <= 0.0) {
    return invalid_argument(fmt::format("[sampler] shift: expected more than 0, got {}", shift));
  }
  std::vector<double> sigmas;
  for (int64_t i = 0; i <= steps; ++i) {
    const double u = 1.0 - static_cast<double>(i) / static_cast<double>(steps);
    sigmas.push_back(shift * u / (1.0 + (shift - 1.0) * u));
  }
  return sigmas;
}

void guide(double guidance, std::span<const float> v_uncond, std::span<float> v_cond) {
  if (guidance == 1.0) return;
  const auto g = static_cast<float>(guidance);
  for (size_t i = 0; i < v_cond.size(); ++i) {
    v_cond[i] = v_uncond[i] + g * (v_cond[i] - v_uncond[i]);
  }
}

void euler_step(double sigma, double sigma_next, std::span<const float> v, std::span<float> x) {
  const auto step = static_cast<float>(sigma_next - sigma);
  for (size_t i = 0; i < x.size(); ++i) x[i] += step * v[i];
}

}  // namespace vsa::sampler
