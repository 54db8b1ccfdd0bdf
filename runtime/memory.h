// How much memory a run needs, and whether so much is available. Host-only.
#pragma once

#include <cstdint>

#include "runtime/dit/config.h"
#include "runtime/io/checkpoint.h"
#include "runtime/run_plan.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// A lower bound: the transformer's weights in the type of the file, those of one step in
/// f32, the activations of one pass, the latents with their velocities. The text encoder is gone by
/// then.
int64_t memory_needed_bytes(const RunPlan& plan, const dit::WanConfig& config,
                            const io::Checkpoint& transformer);

/// The same before that: the text encoder's weights in the type of the file and the largest in f32,
/// but for its table of embeddings, of which few rows are read.
int64_t text_memory_needed_bytes(const io::Checkpoint& text_encoder);

/// @return OutOfMemory with both numbers if a stage of the run would not fit what there is
///         (system::available_memory_bytes)
Status check_memory(const RunPlan& plan, const dit::WanConfig& config,
                    const io::Checkpoint& transformer, const io::Checkpoint& text_encoder);

}  // namespace vsa::runtime
