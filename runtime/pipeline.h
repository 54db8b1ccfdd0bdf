// From a prompt to frames: options in, latents file, frames and report out. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/dit/lora.h"
#include "runtime/latents.h"
#include "runtime/model_folder.h"
#include "runtime/report.h"
#include "runtime/sampler/scheduler_config.h"
#include "runtime/video/frames.h"
#include "runtime/video/metadata.h"
#include "vsa/backend.h"
#include "vsa/tiling.h"

namespace vsa::runtime {

/// Which tiles self-attention attends to: the top k, or all. In both cases a checkpoint with gates
/// adds gate * coarse, because it was trained with this sum.
enum class Attention { kVsa, kDense };

/// "vsa" or "dense". @return InvalidArgument listing both for any other name.
Result<Attention> attention_from_name(std::string_view name);
std::string_view name(Attention attention);

/// Height and width in pixels.
struct FrameSize {
  int64_t height = 0;
  int64_t width = 0;
};

/// Where a run is. `done` of `total` counts units of the stage: encoder layers of the text stage,
/// transformer layers over all steps of the denoise stage, layers of the VAE over all frames of the
/// decode stage.
struct Progress {
  enum class Stage { kText, kLoad, kDenoise, kDecode };
  Stage stage = Stage::kText;
  int64_t done = 0;
  int64_t total = 0;
  int64_t step = 0;  ///< denoise: the step under way, from 0
  int64_t num_steps = 0;
};

/// Takes a video while it is decoded; called on the decoding thread. Members may be empty.
struct FrameFeed {
  /// Once, before the first frames.
  std::function<void(int64_t num_frames, int64_t height, int64_t width)> begin;
  /// The next frames, whole; [some frames, height, width, 3], until the call returns.
  std::function<void(std::span<const uint8_t> rgb)> add;
};

/// Small pictures of the predicted video, made while a run is sampled.
struct PreviewOptions {
  int64_t every = 0;  ///< after every so many steps; 0: none
  /// Called with one pixel for each latent pixel of each latent frame of the predicted video. What
  /// it returns as a failure ends the run.
  std::function<Status(int64_t step, const video::Frames& frames)> show;
};

/// What to generate. An option left empty takes the model's own default (model_index.json, "vsa").
struct GenerateOptions {
  std::filesystem::path model;       ///< folder in diffusers' layout
  ModelChoice choice;                ///< of ModelFolder::open
  std::vector<dit::LoraSpec> loras;  ///< merged into the transformer, one after the other
  std::string prompt;                ///< UTF-8
  std::string negative_prompt;       ///< UTF-8; the prompt of the unconditional pass
  int64_t seed = -1;                 ///< -1: a random one, which the report and the latents record
  std::optional<int64_t> steps;
  std::optional<int64_t> frames;
  std::optional<FrameSize> size;
  std::optional<double> guidance;  ///< 1: no unconditional pass, negative_prompt has no effect
  std::optional<double> fps;       ///< frames per second that the video plays at
  std::optional<sampler::SchedulerKind> scheduler;
  std::optional<double> shift;  ///< of the noise levels: above 1, more steps on strong noise

  Attention attention = Attention::kVsa;
  std::optional<double> sparsity;     ///< vsa: 1 - kept share; not together with topk
  std::optional<int64_t> topk;        ///< vsa: kv tiles kept per query tile
  int64_t dense_steps = 0;            ///< the first steps run dense
  std::vector<int64_t> dense_layers;  ///< these layers run dense in every step
  /// The order in which tokens are cut into tiles.
  TokenOrder order = TokenOrder::kRaster;
  /// Edges of a tile; along a curve only their product counts. Empty: the model's, or 4x4x4.
  std::optional<TileShape> tile;
  /// In raster order instead of `tile`: the best_tile of at most so many tokens. Refused for a
  /// model that was trained with a tile.
  std::optional<int64_t> best_tile_of;

  BackendId backend = BackendId::kCpu;
  int device = -1;       ///< of a backend with devices, from 0; -1: the one that is current
  bool offload = false;  ///< the transformer's layers stay in host memory, and come to the device
                         ///< in each pass: for a device that cannot hold them
  int num_threads = 0;   ///< 0: system::default_num_threads(); the video does not depend on it

  /// Latents of the same run, which was interrupted: it continues from their step and ends with the
  /// same bits. Empty: a new run.
  std::filesystem::path resume;
  std::filesystem::path latents;  ///< where latents are saved before decoding; empty: nowhere
  LatentsName latents_name = LatentsName::kExact;
  PreviewOptions preview;
  FrameFeed feed;                                    ///< takes the frames while they are decoded
  std::function<void(const Progress&)> on_progress;  ///< called on the calling thread; may be empty
  const std::atomic<bool>* cancel = nullptr;         ///< set it to stop within one layer
};

/// Generates a video: text encoder, transformer under the sampler, latents file, pixels. Options
/// are checked before anything is loaded. If sampling is cancelled or fails, the latents of the
/// last whole step are saved, with the number of steps done.
/// @param report  filled as far as the run came, also on failure
/// @return InvalidArgument (an option; the message gives the nearest valid value) | Unsupported (a
///         model or backend this build cannot run; nothing else runs instead) | IoError (a model
///         file is missing, malformed or of a wrong shape; the latents cannot be written) |
///         Cancelled | OutOfMemory | Internal (a non-finite value; names step and layer)
/// Cost: two transformer passes a step (one if guidance is 1). Memory: the transformer's weights in
/// the type of their file, those of one step of a block in f32, and 7 activations of [tokens,
/// width].
Result<video::Frames> generate(const GenerateOptions& options, GenerateReport& report);

/// Frames from a latents file, and what the file says about its run.
struct Decoded {
  video::Frames frames;
  double fps = 0.0;
  int64_t steps_done = 0;  ///< less than `steps` if the run was interrupted
  int64_t steps = 0;
  std::string prompt;
  int64_t seed = 0;
  video::Metadata metadata;  ///< what generate would have written into the video
};

/// How a latents file is decoded.
struct DecodeOptions {
  std::filesystem::path latents;
  /// Where the VAE is, for latents that need one; empty: in the model that the file names.
  std::filesystem::path model{};
  std::filesystem::path vae{};  ///< of PartPaths
  /// Where the VAE runs, if the latents need one: on the CPU unless the backend has a device.
  BackendId backend = BackendId::kCpu;
  int device = -1;      ///< of the backend, as in GenerateOptions
  int num_threads = 0;  ///< 0: system::default_num_threads()
  FrameFeed feed{};
  std::function<void(const Progress&)> on_progress{};  ///< may be empty
  const std::atomic<bool>* cancel = nullptr;           ///< may be null
};

/// Decodes a latents file that `generate` saved.
/// @return IoError (missing, malformed, non-finite; a model or VAE that is not there or does not
///         fit) | Cancelled | OutOfMemory
Result<Decoded> decode(const DecodeOptions& options);

}  // namespace vsa::runtime
