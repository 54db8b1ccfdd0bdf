// How much of a device's memory the decoder takes, counted by its own steps without a device, and
// the split that fits. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/vae/config.h"
#include "runtime/vae/device/work.h"
#include "runtime/vae/layers.h"
#include "runtime/vae/parts.h"
#include "runtime/vae/split.h"
#include "vsa/tensor.h"

namespace vsa::vae::device {

/// The value of `work` becomes the part's input, or that of the part's last layer goes to p in f32.
Status begin_part(Work& work, const Network& network, const Part& part, const float* frames,
                  int64_t num_frames);
Status end_part(Work& work, const Network& network, const Part& part);

/// The buffers for all parts.
/// @param num_frames  of a chunk behind the first, which has one; 0 if there is none
WorkBytes work_bytes(const Network& network, const std::vector<Part>& parts, int64_t num_frames,
                     DType token);
/// What the convolutions of a part keep.
int64_t history_bytes(const Network& network, const Part& part, DType token);

/// Extents of latents.
struct LatentSize {
  int64_t frames = 0, height = 0, width = 0;
};
/// What decoding takes at its peak of a device's memory, weights included: exactly what
/// Memory::most_bytes_taken counts, if nothing else is taken from it. The vendor's libraries take
/// some 0.5 GB besides for their own code.
int64_t memory_needed_bytes(const VaeConfig& config, const LatentSize& size, Split split,
                            DType token);

/// The split with which decoding fits into that memory: four latent frames at a time or as many as
/// fit, then as few stripes as possible, in the order kFrames if it fits and else kStripes. If
/// nothing fits, the split that takes the least memory.
Split choose_split(const VaeConfig& config, const LatentSize& size, int64_t bytes, DType token);

}  // namespace vsa::vae::device
