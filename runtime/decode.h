// From latents to 8-bit frames. Host-only.
#pragma once

#include "runtime/latents.h"
#include "runtime/pipeline.h"
#include "runtime/video/frames.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// RGB frames of latents [3, frames, height, width] in pixel space: clamped to [-1, 1], truncated.
/// @return Unsupported for latents of another space
Result<video::Frames> to_frames(const Latents& latents, const FrameFeed& feed = {});

}  // namespace vsa::runtime
