// The flow-matching Euler sampler. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/sampler/sampler.h"

namespace vsa::sampler {

/// x += (sigma_next - sigma) v: v = noise - x0, so x moves along a straight line towards x0 as
/// sigma falls.
class FlowEuler : public Sampler {
 public:
  FlowEuler(Schedule schedule, int64_t size) : Sampler(std::move(schedule), size, {}) {}

 private:
  void move(int64_t index, std::span<const float> v, std::span<float> x) override;
};

}  // namespace vsa::sampler
