// The last stage of a run: from latents to frames through the VAE. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/io/checkpoint.h"
#include "runtime/latents.h"
#include "runtime/pipeline.h"
#include "runtime/vae/config.h"
#include "runtime/vae/split.h"
#include "runtime/vae/steps.h"
#include "runtime/video/frames.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// How latents are decoded.
struct DecodeControl {
  vae::Split split;
  const std::atomic<bool>* cancel = nullptr;                ///< may be null
  std::function<void(int64_t done, int64_t all)> on_layer;  ///< may be empty
  FrameFeed feed;
};

/// The decoder of a model, on the CPU.
/// @param checkpoint  must outlive the model
/// @return errors of vae::find_weights and vae::cpu::make_model
Result<std::unique_ptr<vae::Model>> load_decoder(const vae::VaeConfig& config,
                                                 const io::Checkpoint& checkpoint);

/// @param latents  of a model with a VAE of that many channels
/// @return InvalidArgument (other channels) | errors of vae::decode
Result<video::Frames> decode_latents(const Latents& latents, vae::Model& decoder,
                                     const DecodeControl& control);

}  // namespace vsa::runtime
