// From latents to 8-bit frames. Host-only.
#include "runtime/decode.h"

#include <fmt/format.h>

#include <new>

#include "runtime/model_folder.h"
#include "runtime/nn/parallel.h"
#include "runtime/run_weights.h"
#include "runtime/system/limits.h"
#include "runtime/vae_stage.h"
#include "runtime/video/pixels.h"

namespace vsa::runtime {
namespace {

/// The frames of latents that need a VAE.
Result<video::Frames> decode_by_vae(const DecodeOptions& options, const Latents& latents) {
  const std::filesystem::path folder =
      options.model.empty() ? std::filesystem::path(latents.model) : options.model;
  if (folder.empty()) {
    return io_error(
        fmt::format("[decode] {}: expected the name of a model, got none; --model says "
                    "where its VAE is",
                    options.latents.string()));
  }
  // Another folder is decoded by its own VAE; that of the run may have been elsewhere.
  const bool as_the_run = options.model.empty() && options.vae.empty();
  const auto model = ModelFolder::open(
      folder, {.variant = as_the_run ? latents.variant : "",
               .parts = {.transformer = {},
                         .vae = as_the_run ? std::filesystem::path(latents.vae) : options.vae,
                         .text_encoder = {}},
               .vae_alone = true});
  VSA_TRY(model.status());
  if (!model->vae) {
    return io_error(fmt::format("[decode] {}: expected a model with a VAE, got {}",
                                options.latents.string(), folder.string()));
  }
  VSA_TRY(vae::check_latent_channels(*model->vae, model->vae_at.weights.string(), latents.shape[0],
                                     options.latents.string()));
  const auto weights = model->open_vae();
  VSA_TRY(weights.status());
  const auto decoder =
      make_decoder(*model->vae, *weights, latents.shape, options.backend, options.device);
  VSA_TRY(decoder.status());
  auto frames = decode_latents(
      latents, *decoder->model,
      {.split = decoder->split,
       .cancel = options.cancel,
       .on_layer =
           [&](int64_t done, int64_t all) {
             if (!options.on_progress) return;
             options.on_progress({.stage = Progress::Stage::kDecode, .done = done, .total = all});
           },
       .feed = options.feed});
  if (frames.ok()) return frames;
  return explain(frames.status(), *weights, "VAE");
}

}  // namespace

Result<video::Frames> to_frames(const Latents& latents, const FrameFeed& feed) {
  if (latents.space != kPixelSpace || latents.shape[0] != 3) {
    return unsupported(
        fmt::format("[decode] latents: expected 3 channels in pixel space, or a space of {}, got "
                    "{} channels in {} space",
                    kWanSpace, latents.shape[0], latents.space));
  }
  video::Frames frames{.num_frames = latents.shape[1],
                       .height = latents.shape[2],
                       .width = latents.shape[3],
                       .rgb = std::vector<uint8_t>(static_cast<size_t>(latents.values.size()))};
  const int64_t pixels = frames.num_frames * frames.height * frames.width;
  for (int64_t c = 0; c < 3; ++c) {
    const float* const channel = latents.values.data() + c * pixels;
    for (int64_t i = 0; i < pixels; ++i) {
      frames.rgb[static_cast<size_t>(i * 3 + c)] = video::to_byte(channel[i]);
    }
  }
  if (feed.begin) feed.begin(frames.num_frames, frames.height, frames.width);
  if (feed.add) feed.add(frames.rgb);
  return frames;
}

Result<Decoded> decode(const DecodeOptions& options) {
  try {
    const nn::ThreadCount threads(options.num_threads > 0 ? options.num_threads
                                                          : system::default_num_threads());
    Result<Latents> latents = load_latents(options.latents);
    VSA_TRY(latents.status());
    Result<video::Frames> frames = latents->space == kWanSpace ? decode_by_vae(options, *latents)
                                                               : to_frames(*latents, options.feed);
    VSA_TRY(frames.status());
    return Decoded{.frames = std::move(*frames),
                   .fps = latents->fps,
                   .steps_done = latents->steps_done,
                   .steps = latents->steps,
                   .prompt = latents->prompt,
                   .seed = latents->seed,
                   .metadata = {.title = latents->made_by.empty() ? "" : latents->prompt,
                                .comment = latents->made_by}};
  } catch (const std::bad_alloc&) {
    return out_of_memory("[decode] not enough memory");
  } catch (const std::exception& fault) {
    return Status(StatusCode::kInternal, fmt::format("[decode] {}", fault.what()));
  }
}

}  // namespace vsa::runtime
