// Small pictures of latents while they are sampled. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/vae/steps.h"
#include "runtime/video/frames.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// A linear map from the channels of a latent pixel to a colour in [-1, 1].
class LatentColours {
 public:
  /// For models that denoise pixels: their three channels.
  static LatentColours of_pixels();

  /// Fitted by least squares to what a model's own decoder makes of random latents: of each patch
  /// of equal latents, the mean colour of the pixels in its middle.
  /// @return errors of vae::decode
  /// Cost: one frame of 128x128 pixels through the decoder (of Wan2.1: 0.1 TFLOP).
  static Result<LatentColours> fit(vae::Model& decoder);

  /// One pixel for each latent pixel of each latent frame.
  /// @param latents  [channels, frames, height, width]
  video::Frames picture(std::span<const float> latents, const std::vector<int64_t>& shape) const;

 private:
  int64_t channels_ = 0;
  std::vector<double> map_;  // [3, channels + 1]: the weights of a colour, and its constant
};

}  // namespace vsa::runtime
