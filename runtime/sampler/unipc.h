// UniPC of order 2 for flow matching: a multistep predictor and corrector. Host-only.
//
// Zhao et al., "UniPC: a unified predictor-corrector framework for fast sampling of diffusion
// models" (2023), with B(h) = e^h - 1 ("bh2") and predictions of x0.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/sampler/sampler.h"

namespace vsa::sampler {

/// The numbers of one step. With m = x - sigma v, the last step's m1 and x_last (as corrected) and
/// the one before it's m2:
///   corrector   x  = keep x_last - take m1 - gain (rho_past (m2 - m1) / ratio + rho_now (m - m1))
///   predictor   x' = keep x      - take m  - gain (1/2      (m1 - m) / ratio)
/// where order 1 leaves out the term with the ratio. A device that has x, m1 and m2 needs no more.
struct UniPcTerms {
  int order = 0;  ///< 0: no corrector in the first step
  float keep = 0.0F, take = 0.0F, gain = 0.0F;
  float ratio = 1.0F;  ///< of steps in ln((1 - sigma) / sigma), below 0
  float rho_past = 0.0F, rho_now = 0.5F;
};
struct UniPcStep {
  float sigma = 0.0F;
  UniPcTerms corrector, predictor;
};

/// Step `index` of a schedule, in f32 as the originals compute: their rounding is part of their
/// result. Order 2, but 1 in the first and in the last step.
UniPcStep unipc_step(const Schedule& schedule, int64_t index);

/// Keeps three tensors of the size of x.
class UniPc : public Sampler {
 public:
  UniPc(Schedule schedule, int64_t size);

 private:
  void move(int64_t index, std::span<const float> v, std::span<float> x) override;
};

}  // namespace vsa::sampler
