// Writing frames as mp4, gif, y4m or numbered png files.
#include "runtime/video/write_video.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/io/ascii.h"
#include "runtime/io/atomic_file.h"
#include "runtime/video/encode.h"
#include "runtime/video/png_frames.h"

namespace vsa::video {
namespace {

// 16384 is the limit of libx264. That of gif is higher, and png and y4m have none of this order.
constexpr int64_t kMaxSizePx = 16384;

EncodeRecipe recipe(VideoKind kind, const Metadata& metadata) {
  switch (kind) {
    case VideoKind::kMp4:
      // Tagged as BT.709 in the limited range: players guess the colours of untagged files wrong.
      // area: colours are averaged over 2 x 2 pixels, which loses nothing at an even scale.
      return {.muxer = "mp4",
              .encoder = "libx264",
              .filters =
                  "scale=flags=area+accurate_rnd+full_chroma_int+bitexact:"
                  "out_color_matrix=bt709:out_range=tv,format=yuv420p",
              .needs_even_size = true,
              // crf: the disk that the tests draw has 51.6 dB in 17 kB at scale 4.
              // mbtree: with AVX-512 the macroblock tree of libx264 reads memory that was not
              // written, so that files of one video differ between runs. Without it they are equal.
              .encoder_options = {{"crf", "12"},
                                  {"preset", "slow"},
                                  {"mbtree", "0"},
                                  {"color_range", "tv"},
                                  {"colorspace", "bt709"},
                                  {"color_primaries", "bt709"},
                                  {"color_trc", "bt709"}},
              .tags = {{"title", metadata.title}, {"comment", metadata.comment}}};
    case VideoKind::kGif:
      return {.muxer = "gif",
              .encoder = "gif",
              .filters =
                  "split[a][b];[a]palettegen=stats_mode=full[p];"
                  "[b][p]paletteuse=dither=sierra2_4a:diff_mode=rectangle",
              .encoder_options = {},
              .gif_comment = metadata.comment.empty() ? "" : gif_comment(metadata.comment)};
    case VideoKind::kY4m:
    case VideoKind::kPngFrames:
      break;
  }
  // The format cannot name its matrix; readers take BT.601.
  return {.muxer = "yuv4mpegpipe",
          .encoder = "wrapped_avframe",
          .filters =
              "scale=flags=accurate_rnd+full_chroma_int+bitexact:out_color_matrix=bt601:"
              "out_range=tv,format=yuv444p",
          .encoder_options = {}};
}

Status check_arguments(const Frames& frames, double fps, int64_t scale) {
  const auto wrong = [](std::string_view what) {
    return invalid_argument(fmt::format("[write_video] {}", what));
  };
  if (frames.num_frames < 1 || frames.height < 1 || frames.width < 1 ||
      std::ssize(frames.rgb) != frames.num_frames * frames.frame_bytes()) {
    return wrong(
        fmt::format("frames: expected at least one, and height*width*3 bytes for each, got "
                    "{} of {}x{} in {} bytes",
                    frames.num_frames, frames.width, frames.height, frames.rgb.size()));
  }
  if (!(fps > 0.0 && fps <= kMaxFps)) {
    return wrong(fmt::format("fps: expected more than 0 and at most {}, got {}", kMaxFps, fps));
  }
  if (scale < 1 || scale > kMaxSizePx / std::max(frames.width, frames.height)) {
    return wrong(
        fmt::format("scale: expected at least 1 and at most {} pixels an edge, got {} for {}x{}",
                    kMaxSizePx, scale, frames.width, frames.height));
  }
  return {};
}

}  // namespace

Result<VideoKind> video_kind(const std::filesystem::path& path) {
  const std::string extension = io::lower_extension(path);
  if (extension == ".mp4") return VideoKind::kMp4;
  if (extension == ".gif") return VideoKind::kGif;
  if (extension == ".y4m") return VideoKind::kY4m;
  if (extension == ".png" && FramePattern::parse(path)) return VideoKind::kPngFrames;
  return invalid_argument(fmt::format(
      "[write_video] output: expected a name ending in .mp4, .gif, .y4m or, for one file "
      "a frame, like "
      "frames/%04d.png, got {}",
      path.string()));
}

Status check_video_path(const std::filesystem::path& path) {
  const Result<VideoKind> kind = video_kind(path);
  if (!kind.ok()) return kind.status();
  return *kind == VideoKind::kPngFrames ? check_png_frames(path) : io::check_writable(path);
}

Status write_video(const std::filesystem::path& path, const Frames& frames, double fps,
                   int64_t scale, const std::atomic<bool>* cancel, const Metadata& metadata) {
  return write_video(path, frames,
                     {.fps = fps, .scale = scale, .cancel = cancel, .metadata = metadata});
}

Status write_video(const std::filesystem::path& path, const Frames& frames,
                   const WriteOptions& options) {
  const Result<VideoKind> kind = video_kind(path);
  if (!kind.ok()) return kind.status();
  VSA_TRY(check_arguments(frames, options.fps, options.scale));
  if (*kind == VideoKind::kPngFrames) return write_png_frames(path, frames, options);
  return encode(path, frames, options, recipe(*kind, options.metadata));
}

}  // namespace vsa::video
