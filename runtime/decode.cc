// From latents to 8-bit frames. Host-only.
#include "runtime/decode.h"

#include <fmt/format.h>

#include <new>

#include "runtime/pipeline.h"
#include "runtime/video/pixels.h"

namespace vsa::runtime {

Result<video::Frames> to_frames(const Latents& latents) {
  if (latents.space != "pixel" || latents.shape[0] != 3) {
    return unsupported(fmt::format(
        "[decode] latents: expected 3 channels in pixel space, got {} channels in {} space: this "
        "runtime has no VAE",
        latents.shape[0], latents.space));
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
  return frames;
}

Result<Decoded> decode(const std::filesystem::path& path) {
  try {
    Result<Latents> latents = load_latents(path);
    VSA_TRY(latents.status());
    Result<video::Frames> frames = to_frames(*latents);
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
  }
}

}  // namespace vsa::runtime
