// UniPC of order 2 for flow matching. Host-only.
//
// Compiled without contraction to fused multiply-adds (runtime/CMakeLists.txt): 1 / h of many small
// steps magnifies the last bits of these few numbers.
#include "runtime/sampler/unipc.h"

#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace vsa::sampler {
namespace {

float sigma_at(const Schedule& schedule, int64_t index) {
  return static_cast<float>(schedule.sigmas[static_cast<size_t>(index)]);
}

/// Half the logarithm of the ratio of signal to noise; infinite at sigma 0.
float lambda_at(const Schedule& schedule, int64_t index) {
  const float sigma = sigma_at(schedule, index);
  return std::log(1.0F - sigma) - std::log(sigma);
}

/// Solves [1 1; ratio 1] rho = b by elimination with the larger pivot, as LAPACK does.
std::pair<float, float> solve(float ratio, float b1, float b2) {
  if (std::fabs(ratio) <= 1.0F) {
    const float second = (b2 - ratio * b1) / (1.0F - ratio);
    return {b1 - second, second};
  }
  const float factor = 1.0F / ratio;
  const float second = (b1 - factor * b2) / (1.0F - factor);
  return {(b2 - second) / ratio, second};
}

/// A step of x from level `from` to level from + 1, of which both kinds of terms are made.
struct Interval {
  Interval(const Schedule& schedule, int64_t from, int order) {
    const float alpha = 1.0F - sigma_at(schedule, from + 1);
    const float lambda = lambda_at(schedule, from);
    h = lambda_at(schedule, from + 1) - lambda;
    phi = std::expm1(-h);
    terms = {.order = order,
             .keep = sigma_at(schedule, from + 1) / sigma_at(schedule, from),
             .take = alpha * phi,
             .gain = alpha * phi};
    if (order == 2) terms.ratio = (lambda_at(schedule, from - 1) - lambda) / h;
  }
  float h = 0.0F;
  float phi = 0.0F;  // e^-h - 1
  UniPcTerms terms;
};

/// The order of the predictor of a step.
int order_of(const Schedule& schedule, int64_t index) {
  return index > 0 && index + 1 < schedule.steps() ? 2 : 1;
}

}  // namespace

UniPcStep unipc_step(const Schedule& schedule, int64_t index) {
  UniPcStep step{.sigma = sigma_at(schedule, index), .corrector = {}, .predictor = {}};
  step.predictor = Interval(schedule, index, order_of(schedule, index)).terms;
  if (index == 0) return step;
  const Interval last(schedule, index - 1, order_of(schedule, index - 1));
  step.corrector = last.terms;
  if (last.terms.order == 2) {
    const float b1 = last.phi / -last.h - 1.0F;
    const float b2 = (b1 / -last.h - 0.5F) * 2.0F;
    std::tie(step.corrector.rho_past, step.corrector.rho_now) =
        solve(last.terms.ratio, b1 / last.phi, b2 / last.phi);
  }
  return step;
}

UniPc::UniPc(Schedule schedule, int64_t size)
    : Sampler(std::move(schedule), size,
              std::array<Carry, 3>{{{"x_before", 1}, {"x0_1", 1}, {"x0_2", 2}}}) {}

void UniPc::move(int64_t index, std::span<const float> v, std::span<float> x) {
  const auto [sigma, corrector, predictor] = unipc_step(schedule(), index);
  float* const last_x = carried(0);  // corrected, before the last predictor
  float* const m1 = carried(1);      // x0 as predicted in the last step,
  float* const m2 = carried(2);      // and in the one before it
  for (size_t i = 0; i < x.size(); ++i) {
    const float m = x[i] - sigma * v[i];
    if (corrector.order != 0) {
      const float past =
          corrector.order == 2 ? corrector.rho_past * ((m2[i] - m1[i]) / corrector.ratio) : 0.0F;
      x[i] = corrector.keep * last_x[i] - corrector.take * m1[i] -
             corrector.gain * (past + corrector.rho_now * (m - m1[i]));
    }
    last_x[i] = x[i];
    x[i] = predictor.keep * x[i] - predictor.take * m;
    if (predictor.order == 2) x[i] -= predictor.gain * (0.5F * ((m1[i] - m) / predictor.ratio));
    m2[i] = m1[i];
    m1[i] = m;
  }
}

}  // namespace vsa::sampler
