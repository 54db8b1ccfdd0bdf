// Classifier-free guidance. Host-only.
#pragma once

#include <span>

namespace vsa::sampler {

/// v = v_uncond + guidance (v_cond - v_uncond), written to v_cond. Guidance 1 leaves v_cond as it
/// is, bit by bit, and v_uncond is not read: such a run needs no unconditional pass.
void guide(double guidance, std::span<const float> v_uncond, std::span<float> v_cond);

}  // namespace vsa::sampler
