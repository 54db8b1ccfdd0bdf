// Classifier-free guidance. Host-only.
#include "runtime/sampler/guidance.h"

#include <cstddef>

namespace vsa::sampler {

void guide(double guidance, std::span<const float> v_uncond, std::span<float> v_cond) {
  if (guidance == 1.0) return;
  const auto g = static_cast<float>(guidance);
  for (size_t i = 0; i < v_cond.size(); ++i) {
    v_cond[i] = v_uncond[i] + g * (v_cond[i] - v_uncond[i]);
  }
}

}  // namespace vsa::sampler
