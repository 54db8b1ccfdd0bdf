// What the VAE takes in memory on the CPU, from its configuration alone. Host-only.
#pragma once

#include <cstdint>

#include "runtime/vae/config.h"
#include "runtime/vae/layers.h"
#include "runtime/vae/parts.h"
#include "runtime/vae/split.h"

namespace vsa::vae::cpu {

/// Floats of the buffers that all layers share.
struct WorkspaceFloats {
  int64_t x = 0;  ///< and as many for `spare`
  int64_t padded = 0;
};

/// The most that the layers of the parts need in a chunk.
/// @param num_frames  of a chunk behind the first, which has one; 0 if there is none
WorkspaceFloats workspace_floats(const Network& network, const std::vector<Part>& parts,
                                 int64_t num_frames);

/// Floats of the frames that the convolutions of a part keep from one chunk to the next.
int64_t history_floats(const Network& network, const Part& part);

/// Extents of latents.
struct LatentSize {
  int64_t frames = 0, height = 0, width = 0;
};

/// What decode() will take at its peak: the weights in f32, the kept frames, the buffers of the
/// layers, and the frames until they are handed out. With Order::kFrames, or without stripes, it
/// does not depend on the length of a video of two latent frames or more. The latents themselves
/// are the caller's. With AVX2 and AVX-512 the result is right to a tenth; without them oneDNN also
/// copies the input of a layer.
/// @param threads  that will compute
int64_t decode_memory_bytes(const VaeConfig& config, const LatentSize& size, Split split,
                            int threads);

/// The same of encode() to latents of that size; the frames are the caller's.
int64_t encode_memory_bytes(const VaeConfig& config, const LatentSize& size, Split split,
                            int threads);

/// The split with which decoding fits into that memory: as few stripes as possible, in the order
/// kFrames if it fits and else kStripes. If nothing fits, the split that takes the least memory.
Split choose_split(const VaeConfig& config, const LatentSize& size, int64_t bytes, int threads);

}  // namespace vsa::vae::cpu
