// The last stage of a run: from latents to frames through the VAE. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/device/memory.h"
#include "runtime/io/checkpoint.h"
#include "runtime/latents.h"
#include "runtime/pipeline.h"
#include "runtime/vae/config.h"
#include "runtime/vae/split.h"
#include "runtime/vae/steps.h"
#include "runtime/video/frames.h"
#include "vsa/backend.h"
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

/// A decoder where it will run, and how it takes the latents so that they fit there.
struct ReadyDecoder {
  std::unique_ptr<vae::Model> model;
  vae::Split split;
  std::shared_ptr<device::Memory> memory;  ///< of the device; null: it runs on the CPU
};
/// @param latents  [channels, frames, height, width]
/// @param backend  if its tensors are in a device's memory, the decoder runs there, and on the CPU
///                 otherwise
/// @param device   as DeviceMemory::of takes it
/// @return errors of vae::find_weights and of the model; OutOfMemory, with what is needed and what
///         is there
Result<ReadyDecoder> make_decoder(const vae::VaeConfig& config, const io::Checkpoint& checkpoint,
                                  const std::vector<int64_t>& latents, BackendId backend,
                                  int device);

/// @param latents  of a model with a VAE of that many channels
/// @return InvalidArgument (other channels) | errors of vae::decode
Result<video::Frames> decode_latents(const Latents& latents, vae::Model& decoder,
                                     const DecodeControl& control);

}  // namespace vsa::runtime
