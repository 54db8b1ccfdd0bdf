// The sampler of models that were distilled to a few steps. Host-only.
#include "runtime/sampler/few_step.h"

#include <cstddef>
#include <utility>

#include "runtime/nn/buffer.h"
#include "runtime/sampler/noise.h"

namespace vsa::sampler {

FewStep::FewStep(Schedule schedule, int64_t size, uint64_t seed)
    : Sampler(std::move(schedule), size, {}), seed_(seed) {}

void FewStep::renoise(double sigma_now, double sigma, std::span<const float> noise,
                      std::span<const float> v, std::span<float> x) {
  const auto level = static_cast<float>(sigma);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto x0 =
        static_cast<float>(static_cast<double>(x[i]) - sigma_now * static_cast<double>(v[i]));
    x[i] = level == 0.0F ? x0 : (1.0F - level) * x0 + level * noise[i];
  }
}

void FewStep::move(int64_t index, std::span<const float> v, std::span<float> x) {
  const auto at = static_cast<size_t>(index);
  const bool last = index + 1 == schedule().steps();
  nn::Buffer noise(last ? 0 : std::ssize(x));
  if (!last) normal(seed_, static_cast<uint64_t>(index) + 1, 0, noise.span());
  renoise(schedule().sigmas[at], schedule().sigmas[at + 1], noise.span(), v, x);
}

}  // namespace vsa::sampler
