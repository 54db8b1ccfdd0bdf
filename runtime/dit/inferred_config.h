// The configuration of a transformer whose file has none, from the shapes of its tensors.
// Host-only.
#pragma once

#include <optional>

#include "runtime/dit/config.h"
#include "runtime/io/checkpoint.h"
#include "vsa/status.h"

namespace vsa::dit {

/// Reads widths, layers and patch off the shapes of a single file, as ComfyUI has them. What no
/// shape shows (heads, eps, the length of the RoPE tables) is taken from `like` if that is as wide,
/// and else is Wan2.1's: heads of 128.
/// @return IoError (names of no known naming, a tensor that is missing or has another rank)
///         | Unsupported (more channels in than out, or another model by refuse_other_models)
Result<WanConfig> infer_wan_config(const io::Checkpoint& checkpoint,
                                   const std::optional<WanConfig>& like);

}  // namespace vsa::dit
