// The sinusoidal embedding of a diffusion timestep. Host-only.
#include "runtime/nn/timestep.h"

#include <cmath>

namespace vsa::nn {

void timestep_embedding(float t, std::span<float> out) {
  const size_t half = out.size() / 2;
  const auto log_period = static_cast<float>(std::log(10000.0));
  for (size_t j = 0; j < half; ++j) {
    const float frequency =
        std::exp(-log_period * static_cast<float>(j) / static_cast<float>(half));
    const float phase = t * frequency;
    out[j] = std::cos(phase);
    out[half + j] = std::sin(phase);
  }
}

}  // namespace vsa::nn
