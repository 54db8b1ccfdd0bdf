// The flow-matching Euler sampler with classifier-free guidance. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vsa/status.h"

namespace vsa::sampler {

/// Noise levels of a run of n steps: n + 1 values from 1 down to 0,
///   sigma_i = shift u / (1 + (shift - 1) u),  u = 1 - i / n
/// The shift is applied once (diffusers' own table applies it twice and ends elsewhere). A shift
/// above 1 spends more steps on strong noise.
/// @return InvalidArgument if steps < 1 or shift is not a positive number
Result<std::vector<double>> flow_sigmas(int64_t steps, double shift);

/// Guidance: v = v_uncond + guidance (v_cond - v_uncond), written to v_cond. Guidance 1 leaves
/// v_cond as it is, bit by bit.
void guide(double guidance, std::span<const float> v_uncond, std::span<float> v_cond);

/// x += (sigma_next - sigma) v. The model predicts v = noise - x0, so x moves along a straight line
/// towards x0 as sigma falls.
void euler_step(double sigma, double sigma_next, std::span<const float> v, std::span<float> x);

}  // namespace vsa::sampler
