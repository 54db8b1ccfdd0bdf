// Options and model defaults, resolved and checked. Host-only.
#include "runtime/run_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "runtime/io/printable.h"
#include "runtime/video/write_video.h"

namespace vsa::runtime {
namespace {

template <class T>
Result<T> choose(const char* option, const std::optional<T>& asked,
                 const std::optional<T>& suggested) {
  if (asked) return *asked;
  if (suggested) return *suggested;
  return invalid_argument(
      fmt::format("[generate] {}: expected a value, got none: the model has no default", option));
}

/// An extent as the tokens that are nearest.
int64_t nearest_tokens(int64_t extent, int64_t patch, int64_t max_tokens) {
  // Rounds up without a sum, which could overflow for an extent near the end of the range.
  const int64_t rounded = extent / patch + (extent % patch >= patch - patch / 2 ? 1 : 0);
  return std::clamp(rounded, int64_t{1}, max_tokens);
}

/// Frames, or frames of latents, as tokens.
Result<int64_t> tokens_of_frames(int64_t frames, int64_t patch, int64_t max_tokens) {
  const int64_t tokens = nearest_tokens(frames, patch, max_tokens);
  if (frames == tokens * patch) return tokens;
  return invalid_argument(fmt::format(
      "[generate] frames: expected a multiple of {} from {} to {}, got {}: the nearest is {}",
      patch, patch, patch * max_tokens, frames, tokens * patch));
}

/// Both edges of a frame as tokens; a message tells the nearest size that fits.
Result<std::array<int64_t, 2>> tokens_of_size(const FrameSize& size, const FrameSize& patch,
                                              int64_t max_tokens) {
  const int64_t h = nearest_tokens(size.height, patch.height, max_tokens);
  const int64_t w = nearest_tokens(size.width, patch.width, max_tokens);
  if (h * patch.height == size.height && w * patch.width == size.width) return std::array{h, w};
  const auto edge = [&](int64_t unit) {
    return fmt::format("a multiple of {} from {} to {}", unit, unit, unit * max_tokens);
  };
  return invalid_argument(fmt::format(
      "[generate] size: expected a width that is {} and a height that is {}, got {}x{}: the "
      "nearest is {}x{}",
      edge(patch.width), patch.width == patch.height ? "one, too" : edge(patch.height), size.width,
      size.height, w * patch.width, h * patch.height));
}

/// Frames as latent frames, of which the first is one frame and each other `factor` of them.
Result<int64_t> latent_frames_of(int64_t frames, int64_t factor, int64_t most) {
  const int64_t latents = std::clamp((frames - 1 + factor / 2) / factor + 1, int64_t{1}, most);
  const int64_t nearest = (latents - 1) * factor + 1;
  if (frames == nearest) return latents;
  return invalid_argument(
      fmt::format("[generate] frames: expected {} n + 1 from 1 to {}, got {}: the nearest is {}",
                  factor, (most - 1) * factor + 1, frames, nearest));
}

Status resolve_video(const GenerateOptions& options, const ModelFolder& model, RunPlan& plan) {
  const ModelDefaults& defaults = model.defaults;
  std::optional<FrameSize> suggested;
  if (defaults.height && defaults.width) suggested = {*defaults.height, *defaults.width};
  const Result<int64_t> frames = choose("frames", options.frames, defaults.frames);
  const Result<FrameSize> size = choose("size", options.size, suggested);
  VSA_TRY(frames.status());
  VSA_TRY(size.status());
  plan.frames = *frames;
  plan.size = *size;
  const nn::PatchShape& patch = model.transformer.patch;
  const int64_t longest = model.transformer.rope_max_seq_len;
  int64_t latent_frames = plan.frames;
  int64_t pixels = 1;  // of a latent's edge
  constexpr int64_t kColours = 3;
  if (!model.vae && model.transformer.in_channels != kColours) {
    return io_error(fmt::format(
        "[model] {}: vae: expected AutoencoderKLWan, as the transformer makes latents of {} "
        "channels, got null",
        (model.root / kModelIndex).string(), model.transformer.in_channels));
  }
  if (model.vae) {
    const auto latents =
        latent_frames_of(plan.frames, model.vae->temporal_factor(), longest * patch.f);
    VSA_TRY(latents.status());
    latent_frames = *latents;
    pixels = model.vae->spatial_factor();
  }
  const auto f = tokens_of_frames(latent_frames, patch.f, longest);
  const auto hw =
      tokens_of_size(plan.size, {.height = patch.h * pixels, .width = patch.w * pixels}, longest);
  VSA_TRY(f.status());
  VSA_TRY(hw.status());
  plan.grid = {*f, (*hw)[0], (*hw)[1]};
  const std::vector<std::vector<int64_t>>& trained = model.trained_on.videos;
  const std::vector made{plan.frames, plan.size.height, plan.size.width};
  if (!trained.empty() && std::ranges::find(trained, made) == trained.end()) {
    std::vector<std::string> known;
    for (const std::vector<int64_t>& video : trained) {
      known.push_back(fmt::format("{} frames of {}x{}", video[0], video[2], video[1]));
    }
    plan.warnings.push_back(
        fmt::format("size: the model was trained on {} pixels (width x height), this run makes {} "
                    "of {}x{}; expect a poor result",
                    fmt::join(known, ", "), plan.frames, plan.size.width, plan.size.height));
  }
  return {};
}

Status resolve_sampler(const GenerateOptions& options, const ModelFolder& model, RunPlan& plan) {
  plan.scheduler = model.scheduler;
  if (options.scheduler) plan.scheduler.kind = *options.scheduler;
  std::optional<int64_t> usual_steps = model.defaults.steps;
  std::optional<double> usual_guidance = model.defaults.guidance;
  if (plan.scheduler.kind == sampler::SchedulerKind::kFewStep && plan.scheduler.timesteps.empty()) {
    // The folder is of another sampler, whose defaults mean nothing here.
    plan.scheduler = sampler::fast_wan_config();
    usual_steps = std::ssize(plan.scheduler.timesteps);
    usual_guidance = 1.0;
  }
  if (options.shift) plan.scheduler.shift = *options.shift;
  const Result<int64_t> steps = choose("steps", options.steps, usual_steps);
  const Result<double> guidance = choose("guidance", options.guidance, usual_guidance);
  VSA_TRY(steps.status());
  VSA_TRY(guidance.status());
  Result<sampler::Schedule> schedule = sampler::make_schedule(plan.scheduler, *steps);
  VSA_TRY(schedule.status());
  if (!std::isfinite(*guidance) || *guidance < 0.0) {
    return invalid_argument(
        fmt::format("[generate] guidance: expected a number of at least 0, got {}", *guidance));
  }
  if (options.seed < -1) {
    return invalid_argument(fmt::format(
        "[generate] seed: expected a number of at least 0, or -1 for a random one, got {}",
        options.seed));
  }
  plan.fps = options.fps.value_or(model.fps);
  if (!(plan.fps > 0.0 && plan.fps <= video::kMaxFps)) {
    return invalid_argument(fmt::format(
        "[generate] fps: expected more than 0 and at most {}, got {}", video::kMaxFps, plan.fps));
  }
  plan.steps = *steps;
  plan.guidance = *guidance;
  if (plan.guidance < 1.0) {
    plan.warnings.push_back(fmt::format(
        "guidance: {} {} the prompt; 1 turns guidance off", plan.guidance,
        plan.guidance == 0.0 ? "ignores" : "leads towards the negative prompt, away from"));
  }
  if (plan.passes() == 2) {
    plan.negative_prompt = options.negative_prompt;
  } else if (!options.negative_prompt.empty()) {
    plan.warnings.push_back(
        fmt::format("negative prompt: it has no effect at guidance {}", plan.guidance));
  }
  if (options.preview.every > plan.steps) {
    plan.warnings.push_back(fmt::format("preview: every {} steps has no effect in a run of {}",
                                        options.preview.every, plan.steps));
  }
  plan.seed = options.seed;
  if (plan.seed == -1) {
    std::random_device entropy;  // 31 bits: a seed that is easy to retype
    plan.seed = static_cast<int64_t>(entropy() >> 1);
  }
  plan.schedule = std::move(*schedule);
  return {};
}

Result<int64_t> resolve_topk(const GenerateOptions& options, const std::optional<double>& suggested,
                             int64_t num_tiles) {
  if (options.topk && options.sparsity) {
    return invalid_argument("[generate] topk: expected none beside sparsity, got both");
  }
  if (options.topk) {
    if (*options.topk >= 1 && *options.topk <= num_tiles) return *options.topk;
    return invalid_argument(
        fmt::format("[generate] topk: expected 1 to {} (the tiles of this video), got {}",
                    num_tiles, *options.topk));
  }
  const Result<double> sparsity = choose("sparsity", options.sparsity, suggested);
  if (!sparsity.ok()) {
    return invalid_argument(sparsity.status().message() +
                            "; 0.875 keeps one tile in eight, and dense attention keeps all");
  }
  if (!(*sparsity >= 0.0 && *sparsity <= 1.0)) {
    return invalid_argument(fmt::format("[generate] sparsity: expected 0 to 1, got {}", *sparsity));
  }
  return topk_from_sparsity(*sparsity, num_tiles);
}

std::string edges_of(const TileShape& tile) {
  return fmt::format("{}x{}x{}", tile.f, tile.h, tile.w);
}

/// @param trained  the tile that the model was trained with
Result<TileShape> resolve_tile(const GenerateOptions& options, const Grid& grid,
                               const std::optional<TileShape>& trained) {
  const bool along_a_curve = options.order != TokenOrder::kRaster;
  if (!options.best_tile_of) {
    if (options.tile) return *options.tile;
    if (along_a_curve) return TileShape{.f = 1, .h = 1, .w = kCurveTileTokens.front()};
    return trained.value_or(TileShape{});
  }
  if (options.tile || along_a_curve) {
    return invalid_argument(fmt::format("[generate] tile: expected no best tile beside {}, got one",
                                        options.tile ? "given edges" : "a curve"));
  }
  if (trained) {
    return invalid_argument(
        fmt::format("[generate] tile: expected {}, which the model was trained with, or other "
                    "edges, got auto",
                    edges_of(*trained)));
  }
  return best_tile(grid, *options.best_tile_of);
}

Status resolve_attention(const GenerateOptions& options, const ModelFolder& model,
                         const TrainedWith& trained_with, RunPlan& plan) {
  const std::optional<TileShape> trained =
      model.defaults.tile ? model.defaults.tile : trained_with.tile;
  const Result<TileShape> tile = resolve_tile(options, plan.grid, trained);
  VSA_TRY(tile.status());
  plan.tiling = {.order = options.order, .tile = *tile};
  const Result<TilePlan> tiles = TilePlan::grid(plan.grid, plan.tiling);
  VSA_TRY(tiles.status());
  if (trained && options.order != TokenOrder::kRaster) {
    plan.warnings.push_back(
        fmt::format("order: the model was trained with tiles of {}, this run uses the order {}",
                    edges_of(*trained), vsa::name(options.order)));
  } else if (trained && *trained != *tile) {
    plan.warnings.push_back(fmt::format("tile: the model was trained with {}, this run uses {}",
                                        edges_of(*trained), edges_of(*tile)));
  }
  plan.num_tiles = tiles->num_tiles();

  const int64_t layers = model.transformer.num_layers;
  plan.dense_layer.assign(static_cast<size_t>(layers), false);
  for (const int64_t layer : options.dense_layers) {
    if (layer < 0 || layer >= layers) {
      return invalid_argument(
          fmt::format("[generate] dense_layers: expected 0 to {}, got {}", layers - 1, layer));
    }
    plan.dense_layer[static_cast<size_t>(layer)] = true;
  }
  if (options.dense_steps < 0 || options.dense_steps > plan.steps) {
    return invalid_argument(fmt::format("[generate] dense_steps: expected 0 to {}, got {}",
                                        plan.steps, options.dense_steps));
  }
  plan.dense_steps = options.dense_steps;
  plan.all_dense = options.attention == Attention::kDense;
  plan.topk = plan.num_tiles;
  if (!plan.all_dense) {
    const Result<int64_t> topk = resolve_topk(
        options, model.defaults.sparsity ? model.defaults.sparsity : trained_with.sparsity,
        plan.num_tiles);
    VSA_TRY(topk.status());
    plan.topk = *topk;
  }
  return {};
}

Status resolve_backend(const GenerateOptions& options, const ModelFolder& model, RunPlan& plan) {
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return invalid_argument(fmt::format("[generate] num_threads: expected 0 to {}, got {}",
                                        kMaxThreads, options.num_threads));
  }
  const Result<BackendTraits> traits = backend_traits(options.backend);
  plan.on_device = traits.ok() && traits->memory == MemoryKind::kDevice;
  if (!plan.on_device && (options.device >= 0 || options.offload)) {
    return invalid_argument(fmt::format(
        "[generate] {}: expected none with backend {}, whose tensors are in host memory",
        options.offload ? "offload" : "device", name(options.backend)));
  }
  for (const BackendInfo& info : backends()) {
    if (info.id != options.backend) continue;
    plan.backend_detail = info.detail;
    if (!info.available) break;
    const int64_t head_dim = model.transformer.head_dim;
    if (traits->takes_head_dim(head_dim)) return {};
    return unsupported(fmt::format(
        "[generate] backend: expected a model whose head_dim is a multiple of {} up to {} on {}, "
        "got {}; {}",
        traits->head_dim_step, traits->max_head_dim, name(options.backend), head_dim,
        traits->head_dim_remedy));
  }
  return unsupported(fmt::format("[generate] backend: {} is not available: {}",
                                 name(options.backend), plan.backend_detail));
}

/// Numbers between commas; nothing if `text` is anything else.
template <class T, size_t n>
std::optional<std::array<T, n>> parse_list(std::string_view text) {
  std::array<T, n> values{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < n; ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    if (error != std::errc() || (i + 1 < n ? next == end || *next != ',' : next != end)) return {};
    at = next + 1;
  }
  return values;
}

}  // namespace

bool RunPlan::is_dense(int64_t step, int64_t layer) const {
  return all_dense || step < dense_steps || dense_layer[static_cast<size_t>(layer)];
}

Result<TrainedWith> trained_with(const io::Metadata& metadata) {
  TrainedWith trained;
  const auto wrong = [](const char* key, const std::string& value) {
    return io_error(fmt::format("[load] transformer: metadata {}: expected numbers, got {}", key,
                                io::printable(value)));
  };
  if (const auto tile = metadata.find("vsa.tile"); tile != metadata.end()) {
    const auto edges = parse_list<int64_t, 3>(tile->second);
    if (!edges) return wrong("vsa.tile", tile->second);
    trained.tile = {(*edges)[0], (*edges)[1], (*edges)[2]};
  }
  if (const auto sparsity = metadata.find("vsa.sparsity"); sparsity != metadata.end()) {
    const auto value = parse_list<double, 1>(sparsity->second);
    if (!value) return wrong("vsa.sparsity", sparsity->second);
    trained.sparsity = (*value)[0];
  }
  return trained;
}

Result<RunPlan> plan_run(const GenerateOptions& options, const ModelFolder& model,
                         const TrainedWith& trained) {
  RunPlan plan;
  VSA_TRY(resolve_backend(options, model, plan));
  VSA_TRY(resolve_video(options, model, plan));
  VSA_TRY(resolve_sampler(options, model, plan));
  VSA_TRY(resolve_attention(options, model, trained, plan));
  return plan;
}

Status check_run(const GenerateOptions& options) {
  const Result<ModelFolder> model = ModelFolder::open(options.model, options.choice);
  VSA_TRY(model.status());
  const auto weights = model->open_transformer();
  VSA_TRY(weights.status());
  const Result<TrainedWith> trained = trained_with(weights->metadata());
  VSA_TRY(trained.status());
  return plan_run(options, *model, *trained).status();
}

}  // namespace vsa::runtime
