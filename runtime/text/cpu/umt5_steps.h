// The umT5 text encoder on the CPU, in f32. Host-only.
#pragma once

#include <memory>

#include "runtime/text/umt5_steps.h"
#include "runtime/text/umt5_weights.h"

namespace vsa::text::cpu {

/// The large weights stay in the mapped file, which must outlive the steps: a run reads them once
/// or twice. A step makes f32 of those it multiplies with.
/// @return Unsupported if VSA_ISA names an instruction set that is not there
Result<std::unique_ptr<Umt5Steps>> make_steps(const Umt5Weights& weights);

}  // namespace vsa::text::cpu
