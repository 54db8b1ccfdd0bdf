// The sampler of models that were distilled to a few steps, such as FastWan. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/sampler/sampler.h"

namespace vsa::sampler {

/// Each step predicts x0 = x - sigma v, in f64 as FastVideo does, and brings it to the next level
/// with fresh noise: x' = (1 - sigma') x0 + sigma' noise. The last step gives x0. Such models are
/// run without guidance.
class FewStep : public Sampler {
 public:
  /// @param seed  of the noise: that of step i is the stream i + 1, as the initial noise is 0
  FewStep(Schedule schedule, int64_t size, uint64_t seed);

  /// x = (1 - sigma) x0 + sigma noise for x0 = x - sigma_now v. Of the noise nothing is read at
  /// sigma 0, where it may be empty.
  static void renoise(double sigma_now, double sigma, std::span<const float> noise,
                      std::span<const float> v, std::span<float> x);

 private:
  void move(int64_t index, std::span<const float> v, std::span<float> x) override;

  uint64_t seed_ = 0;
};

}  // namespace vsa::sampler
