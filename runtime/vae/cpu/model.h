// Wan2.1's VAE on the CPU, in f32. Host-only.
#pragma once

#include <memory>

#include "runtime/vae/steps.h"
#include "runtime/vae/weights.h"

namespace vsa::vae::cpu {

/// The decoder or the encoder. Weights of convolutions become f32 in oneDNN's order when they are
/// first used, so the checkpoint must outlive the model.
/// @return Unsupported if VSA_ISA names an instruction set that is not there
Result<std::unique_ptr<Model>> make_model(VaeWeights weights);

}  // namespace vsa::vae::cpu
