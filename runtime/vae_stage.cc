// The last stage of a run: from latents to frames through the VAE.
#include "runtime/vae_stage.h"

#include <algorithm>

#include "runtime/memory.h"
#include "runtime/nn/parallel.h"
#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/device/model.h"
#include "runtime/vae/weights.h"
#include "runtime/video/pixels.h"

namespace vsa::runtime {
namespace {

Result<vae::VaeWeights> find_decoder(const vae::VaeConfig& config,
                                     const io::Checkpoint& checkpoint) {
  vae::LoadReport loaded;
  auto weights = vae::find_weights(config, vae::Half::kDecoder, checkpoint, loaded);
  VSA_TRY(checkpoint.in_file(weights.status()));
  return weights;
}

/// to[i] = the pixel of from[i], with all threads.
void to_bytes(std::span<const float> from, uint8_t* to) {
  constexpr int64_t kPart = 1 << 14;
  const int64_t size = std::ssize(from);
  nn::parallel_rows((size + kPart - 1) / kPart, [&](const nn::RowBlock& parts) {
    const int64_t end = std::min(parts.end * kPart, size);
    for (int64_t i = parts.begin * kPart; i < end; ++i) {
      to[i] = video::to_byte(from[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace

Result<std::unique_ptr<vae::Model>> load_decoder(const vae::VaeConfig& config,
                                                 const io::Checkpoint& checkpoint) {
  auto weights = find_decoder(config, checkpoint);
  VSA_TRY(weights.status());
  return vae::cpu::make_model(std::move(*weights));
}

Result<ReadyDecoder> make_decoder(const vae::VaeConfig& config, const io::Checkpoint& checkpoint,
                                  const std::vector<int64_t>& latents, BackendId backend,
                                  int device) {
  const Result<BackendTraits> traits = backend_traits(backend);
  VSA_TRY(traits.status());
  if (traits->memory != MemoryKind::kDevice) {
    auto decoder = load_decoder(config, checkpoint);
    VSA_TRY(decoder.status());
    const VaeNeeds needs = vae_memory_needed(config, latents);
    VSA_TRY(check_vae_memory(needs));
    return ReadyDecoder{.model = std::move(*decoder), .split = needs.split, .memory = nullptr};
  }
  const auto weights = find_decoder(config, checkpoint);
  VSA_TRY(weights.status());
  const auto memory = device::Memory::of(backend, device);
  VSA_TRY(memory.status());
  const auto needs = fit_vae(config, latents, **memory);
  VSA_TRY(needs.status());
  auto decoder = vae::device::DeviceModel::load(*weights, *memory);
  VSA_TRY(decoder.status());
  return ReadyDecoder{.model = std::move(*decoder), .split = needs->split, .memory = *memory};
}

Result<video::Frames> decode_latents(const Latents& latents, vae::Model& decoder,
                                     const DecodeControl& control) {
  const vae::VaeConfig& config = decoder.config();
  VSA_TRY(vae::check_latent_channels(config, "the VAE", latents.shape[0], "the latents"));
  video::Frames frames{.num_frames = vae::num_decoded_frames(config, latents.shape[1]),
                       .height = latents.shape[2] * config.spatial_factor(),
                       .width = latents.shape[3] * config.spatial_factor(),
                       .rgb = {}};
  frames.rgb.resize(static_cast<size_t>(frames.num_frames * frames.frame_bytes()));
  if (control.feed.begin) control.feed.begin(frames.num_frames, frames.height, frames.width);
  const auto keep = [&](const vae::FrameChunk& chunk) -> Status {
    const auto bytes =
        std::span(frames.rgb)
            .subspan(static_cast<size_t>(chunk.first * frames.frame_bytes()), chunk.rgb.size());
    to_bytes(chunk.rgb, bytes.data());
    if (control.feed.add) control.feed.add(bytes);
    return {};
  };
  VSA_TRY(vae::decode({.latents = latents.values.data(),
                       .frames = latents.shape[1],
                       .height = latents.shape[2],
                       .width = latents.shape[3],
                       .split = control.split,
                       .on_frames = keep,
                       .control = {.cancel = control.cancel, .on_layer = control.on_layer}},
                      decoder));
  return frames;
}

}  // namespace vsa::runtime
