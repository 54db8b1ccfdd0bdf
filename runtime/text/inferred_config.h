// The configuration of a umT5 encoder whose file has none, from the shapes of its tensors.
// Host-only.
#pragma once

#include "runtime/io/checkpoint.h"
#include "runtime/text/umt5_config.h"
#include "vsa/status.h"

namespace vsa::text {

/// Reads widths, heads and layers off the shapes of a single file, as ComfyUI has them; the rest is
/// umT5's own (buckets up to a distance of 128, eps 1e-6).
/// @return IoError naming a tensor that is missing or has another rank
Result<Umt5Config> infer_umt5_config(const io::Checkpoint& checkpoint);

}  // namespace vsa::text
