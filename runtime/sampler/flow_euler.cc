// The flow-matching Euler sampler. Host-only.
#include "runtime/sampler/flow_euler.h"

#include <cstddef>

namespace vsa::sampler {

void FlowEuler::move(int64_t index, std::span<const float> v, std::span<float> x) {
  const auto at = static_cast<size_t>(index);
  const auto step = static_cast<float>(schedule().sigmas[at + 1] - schedule().sigmas[at]);
  for (size_t i = 0; i < x.size(); ++i) x[i] += step * v[i];
}

}  // namespace vsa::sampler
