// The layers of the VAE's decoder and encoder in the order they run. Host-only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/vae/config.h"

namespace vsa::vae {

/// What a layer computes. Convolutions over time are causal: each sees the frame and the two before
/// it; before the first frame there are zeros. Norm is x / max(|x|, 1e-12) * sqrt(channels) *
/// gamma, |x| over the channels of a pixel.
enum class LayerKind {
  kPointwise,  ///< a product with each pixel's channels
  kConv,       ///< a convolution of 3x3x3
  kResidual,   ///< x (or its product where channels change) + conv(silu(norm(conv(silu(norm(x))))))
  kAttention,  ///< x + proj(attention of norm(x)) within each frame, one head over all channels
  kUpsample,   ///< two frames from each (if `temporal`), edges doubled, a convolution of 3x3
  kDownsample,  ///< a convolution of 3x3 that halves edges, one frame from two (if `temporal`)
  kHead,        ///< conv(silu(norm(x)))
};

struct Layer {
  LayerKind kind = LayerKind::kPointwise;
  std::string name;         ///< diffusers' module, such as "decoder.up_blocks.0.resnets.1"
  int64_t in = 0, out = 0;  ///< channels
  bool temporal = false;    ///< of kUpsample and kDownsample
};

/// Consecutive layers. Those outside [whole_begin, whole_end) are local: a row of their output
/// depends on a few rows of their input. The others hold the attention and run on whole frames.
struct Network {
  std::vector<Layer> layers;
  int64_t whole_begin = 0, whole_end = 0;

  int64_t num_layers() const { return std::ssize(layers); }
  const Layer& layer(int64_t i) const { return layers[static_cast<size_t>(i)]; }
};

/// From latents of z_dim channels to 3; the whole frames come first.
Network decoder_network(const VaeConfig& config);
/// From 3 channels to the means and logarithms of variances, 2 * z_dim; the whole frames come last.
Network encoder_network(const VaeConfig& config);

/// Frames that a layer makes of `frames`. In the first chunk of a video, which is its first frame
/// alone, no layer doubles or halves them.
int64_t frames_out(const Layer& layer, int64_t frames, bool first_chunk);

}  // namespace vsa::vae
