// The last stage of a run: from latents to frames through the VAE.
#include "runtime/vae_stage.h"

#include <algorithm>

#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/weights.h"
#include "runtime/video/pixels.h"

namespace vsa::runtime {

Result<std::unique_ptr<vae::Model>> load_decoder(const vae::VaeConfig& config,
                                                 const io::Checkpoint& checkpoint) {
  vae::LoadReport loaded;
  auto weights = vae::find_weights(config, vae::Half::kDecoder, checkpoint, loaded);
  VSA_TRY(checkpoint.in_file(weights.status()));
  return vae::cpu::make_model(std::move(*weights));
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
    std::ranges::transform(chunk.rgb, bytes.begin(), video::to_byte);
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
