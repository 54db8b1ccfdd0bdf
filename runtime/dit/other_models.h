// Checkpoints of Wan's family that are not a text-to-video transformer, told by their tensors.
// Host-only.
#pragma once

#include "runtime/io/checkpoint.h"
#include "vsa/status.h"

namespace vsa::dit {

/// Refuses by name what this runtime does not compute: image to video, VACE and other controls, and
/// weights in 8 bits or packed types. Everything else is left to find_weights.
/// @return Unsupported naming the kind of model and the tensor that shows it
Status refuse_other_models(const io::Checkpoint& checkpoint);

}  // namespace vsa::dit
