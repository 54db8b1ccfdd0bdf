// How much memory a run needs, and whether so much is available. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/memory.h"
#include "runtime/dit/config.h"
#include "runtime/dit/weights.h"
#include "runtime/io/checkpoint.h"
#include "runtime/run_plan.h"
#include "runtime/vae/config.h"
#include "runtime/vae/split.h"
#include "vsa/backend.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// A lower bound: the transformer's weights in the type of the file, those of one step in
/// f32, the activations of one pass, the latents with their velocities. The text encoder has been
/// freed by then.
int64_t memory_needed_bytes(const RunPlan& plan, const dit::WanConfig& config,
                            const io::Checkpoint& transformer);

/// A lower bound for the text stage: the text encoder's weights in the type of the file and the
/// largest of them in f32, without the table of embeddings, of which few rows are read.
int64_t text_memory_needed_bytes(const io::Checkpoint& text_encoder);

/// How a VAE is run so that it fits into the available memory, and how much memory that takes, the
/// latents and two copies of the frames in 8 bits included.
struct VaeNeeds {
  vae::Split split;
  int64_t bytes = 0;
};
/// @param latents  [channels, frames, height, width]
VaeNeeds vae_memory_needed(const vae::VaeConfig& config, const std::vector<int64_t>& latents);

/// @return OutOfMemory, with both numbers, if a stage of the run would not fit into the memory that
///         is available (system::available_memory_bytes)
Status check_memory(const RunPlan& plan, const ModelFolder& model,
                    const io::Checkpoint& transformer, const io::Checkpoint& text_encoder);
/// The same for the memory of the device that all stages run on (plan.on_device).
/// @return also errors of device::Memory::of
Status check_device_memory(const RunPlan& plan, const ModelFolder& model,
                           const dit::WanWeights& transformer, const GenerateOptions& options);
/// The same for decoding alone.
Status check_vae_memory(const VaeNeeds& needs);
/// How a VAE's decoder is run on a device so that it fits into the memory that is available there.
/// @param latents  [channels, frames, height, width]
/// @return OutOfMemory, with both numbers | Unsupported (a VAE that does not run on a device) |
///         DeviceError
Result<VaeNeeds> fit_vae(const vae::VaeConfig& config, const std::vector<int64_t>& latents,
                         const device::Memory& memory);

/// The extents of a run's latents: channels, frames, height, width.
std::vector<int64_t> latent_shape(const RunPlan& plan, const dit::WanConfig& config);

}  // namespace vsa::runtime
