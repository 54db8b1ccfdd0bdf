// How much of a video the VAE takes at a time. Host-only.
#pragma once

#include <cstdint>

namespace vsa::vae {

/// The order of the work if there are stripes.
enum class Order {
  /// All stripes of a chunk, then the next chunk: frames come out while later ones are decoded. The
  /// frames that convolutions keep are in memory for all stripes at once.
  kFrames,
  /// All chunks of a stripe, then the next stripe: takes the least memory. All frames come out at
  /// the end.
  kStripes,
};

/// How the work is divided. Time and memory depend on it. Values do not, except for rounding: a
/// convolution may add in another order for another size (relative L2 distance below 1e-6).
struct Split {
  int64_t chunk = 1;    ///< latent frames at a time, behind the first, which is always alone
  int64_t stripes = 1;  ///< horizontal, from 1 to the number of the latents' rows
  Order order = Order::kFrames;  ///< of decoding; encoding, which hands nothing out, does stripes
};

/// A chunk of a video in frames of pixels and in latent frames.
struct Chunk {
  int64_t first_frame = 0, num_frames = 0;
  int64_t first_latent = 0, num_latents = 0;
};

/// The chunk that begins at a latent frame.
/// @param latents          of the whole video
/// @param temporal_factor  frames of a latent frame other than the first
constexpr Chunk chunk_at(int64_t first_latent, int64_t latents, Split split,
                         int64_t temporal_factor) {
  if (first_latent == 0) return {.num_frames = 1, .num_latents = 1};
  const int64_t left = latents - first_latent;
  const int64_t num = split.chunk < left ? split.chunk : left;
  return {.first_frame = 1 + (first_latent - 1) * temporal_factor,
          .num_frames = num * temporal_factor,
          .first_latent = first_latent,
          .num_latents = num};
}

}  // namespace vsa::vae
