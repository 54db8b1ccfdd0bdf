// The Wan video transformer on the CPU, in f32. Host-only.
#pragma once

#include <memory>

#include "runtime/dit/steps.h"
#include "runtime/dit/weights.h"
#include "vsa/backend.h"

namespace vsa::dit::cpu {

/// Copies the weights, each in the type it is stored in: they may go afterwards. A step makes f32
/// of the weights it multiplies with, so that memory is the file's bytes and one step in f32.
/// @param context  what self-attention runs with: the cpu or the reference backend
/// @return Unsupported if VSA_ISA names an instruction set that is not there
Result<std::unique_ptr<Model>> make_model(const WanWeights& weights, const Context& context);

}  // namespace vsa::dit::cpu
