// From a prompt to frames. Host-only.
#include "runtime/pipeline.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <numeric>

#include "runtime/denoise.h"
#include "runtime/io/atomic_file.h"
#include "runtime/io/sha256.h"
#include "runtime/latents.h"
#include "runtime/model_folder.h"
#include "runtime/nn/parallel.h"
#include "runtime/run_plan.h"
#include "runtime/text/tokenizer.h"
#include "runtime/video/pixels.h"
#include "vsa/version.h"

namespace vsa::runtime {
namespace {

namespace fs = std::filesystem;

/// Adds the time until it is destroyed to a field of the report.
class Timer {
 public:
  explicit Timer(double& ms) : ms_(ms) {}
  ~Timer() {
    const auto passed = std::chrono::steady_clock::now() - start_;
    ms_ += std::chrono::duration<double, std::milli>(passed).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& ms_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool cancelled(const GenerateOptions& options) {
  return options.cancel != nullptr && *options.cancel;
}

void tell(const GenerateOptions& options, const Progress& progress) {
  if (options.on_progress) options.on_progress(progress);
}

/// Sizes and hashes of all files that the run reads.
Status hash_files(const ModelFolder& model, const io::Checkpoint& text,
                  const io::Checkpoint& transformer, GenerateReport& report) {
  std::vector<fs::path> paths;
  for (const fs::path& file : ModelFolder::config_files()) paths.push_back(model.root / file);
  paths.push_back(model.tokenizer());
  paths.insert(paths.end(), text.paths().begin(), text.paths().end());
  paths.insert(paths.end(), transformer.paths().begin(), transformer.paths().end());
  for (const fs::path& path : paths) {
    const Result<std::string> hash = io::sha256_of_file(path);
    if (!hash.ok()) return hash.status();
    report.files.push_back({.path = path.lexically_relative(model.root).string(),
                            .bytes = static_cast<int64_t>(fs::file_size(path)),
                            .sha256 = *hash});
  }
  return {};
}

WeightsReport weights_report(const nn::LoadSummary& summary, const std::string& naming) {
  return {.naming = naming,
          .dtype = summary.dtype,
          .parameters = summary.parameters,
          .loaded = summary.loaded,
          .unused = summary.unused};
}

/// Embeddings of both prompts. The encoder lives only here: the transformer gets its memory.
struct Texts {
  text::TextEmbedding prompt, negative;
};
Result<Texts> encode_texts(const GenerateOptions& options, const ModelFolder& model,
                           const io::Checkpoint& weights, bool guided, GenerateReport& report) {
  const Timer timer(report.text_ms);
  const Result<text::Tokenizer> tokenizer = text::Tokenizer::load(model.tokenizer());
  VSA_TRY(tokenizer.status());
  if (tokenizer->vocabulary_size() > model.text_encoder.vocab_size) {
    return io_error(fmt::format(
        "[model] tokenizer/spiece.model: expected at most {} pieces (vocab_size of the text "
        "encoder), got {}",
        model.text_encoder.vocab_size, tokenizer->vocabulary_size()));
  }
  const auto prompt = tokenizer->encode(options.prompt, model.max_sequence_length);
  const auto negative = tokenizer->encode(options.negative_prompt, model.max_sequence_length);
  VSA_TRY(prompt.status());
  VSA_TRY(negative.status());
  nn::LoadSummary summary;
  const auto encoder = text::Umt5Encoder::load(model.text_encoder, weights, summary);
  VSA_TRY(encoder.status());
  report.text_encoder = weights_report(summary, "transformers");

  const int64_t layers = model.text_encoder.num_layers;
  Progress progress{.stage = Progress::Stage::kText, .total = guided ? 2 * layers : layers};
  const text::EncodeControl control{.on_layer =
                                        [&](int64_t) {
                                          ++progress.done;
                                          tell(options, progress);
                                        },
                                    .cancel = options.cancel};
  Texts texts;
  auto embedded = encoder->encode(*prompt, model.max_sequence_length, control);
  VSA_TRY(embedded.status());
  texts.prompt = std::move(*embedded);
  if (guided) {
    embedded = encoder->encode(*negative, model.max_sequence_length, control);
    VSA_TRY(embedded.status());
    texts.negative = std::move(*embedded);
  }
  return texts;
}

Result<dit::WanTransformer> load_transformer(const GenerateOptions& options,
                                             const ModelFolder& model,
                                             const io::Checkpoint& weights,
                                             GenerateReport& report) {
  const Timer timer(report.load_ms);
  dit::LoadReport loaded;
  auto transformer = dit::WanTransformer::load(model.transformer, weights, loaded);
  VSA_TRY(transformer.status());
  report.transformer = weights_report(loaded.summary, loaded.naming);
  report.transformer.has_gates = loaded.has_gates;
  if (!loaded.has_gates && options.attention == Attention::kVsa) {
    report.warnings.push_back(
        "gates: the checkpoint has no to_gate_compress; it runs the fine stage alone and was "
        "probably trained dense");
  }
  if (loaded.has_gates && options.attention == Attention::kDense) {
    report.warnings.push_back(
        "gates: the checkpoint has to_gate_compress, so dense attention adds gate * coarse");
  }
  tell(options, {.stage = Progress::Stage::kLoad, .done = 1, .total = 1});
  return transformer;
}

void describe(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
              GenerateReport& report) {
  report.vsa_version = VSA_VERSION_STRING;
  report.onednn_version = nn::onednn_version();
  report.backend = name(options.backend);
  report.backend_detail = plan.backend_detail;
  report.num_threads = nn::num_threads();
  report.prompt = options.prompt;
  report.negative_prompt = options.negative_prompt;
  report.seed = plan.seed;
  report.steps = plan.steps;
  report.frames = plan.frames;
  report.height_px = plan.size.height;
  report.width_px = plan.size.width;
  report.fps = model.fps;
  report.guidance = plan.guidance;
  report.shift = model.shift;
  report.attention = name(options.attention);
  report.grid_tokens = {plan.grid.f, plan.grid.h, plan.grid.w};
  report.tile_shape = {plan.tile.f, plan.tile.h, plan.tile.w};
  report.num_tiles = plan.num_tiles;
  report.topk = plan.topk;
  report.warnings = plan.warnings;
  report.ignored_config_fields = model.ignored;
}

Latents empty_latents(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
                      const GenerateReport& report) {
  const dit::WanConfig& config = model.transformer;
  Latents latents{.values = nn::Buffer(latent_size(plan, config)),
                  .shape = {config.in_channels, plan.frames, plan.size.height, plan.size.width},
                  .model = options.model.string(),
                  .transformer_sha256 = {},
                  .prompt = options.prompt,
                  .negative_prompt = options.negative_prompt,
                  .seed = plan.seed,
                  .steps = plan.steps,
                  .guidance = plan.guidance,
                  .shift = model.shift,
                  .fps = model.fps,
                  .attention = std::string(name(options.attention)),
                  .topk = plan.topk};
  for (const FileReport& file : report.files) {
    if (file.path.starts_with("transformer/") && file.path.ends_with(".safetensors")) {
      latents.transformer_sha256 += (latents.transformer_sha256.empty() ? "" : ",") + file.sha256;
    }
  }
  return latents;
}

/// The sampler's run, and the latents file whatever its outcome.
Status sample(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
              const dit::WanTransformer& transformer, const Texts& texts, Latents& latents,
              GenerateReport& report) {
  const Timer timer(report.denoise_ms);
  const dit::TextContext prompt = transformer.prepare_text(texts.prompt);
  const dit::TextContext negative =
      plan.passes() == 2 ? transformer.prepare_text(texts.negative) : dit::TextContext{};
  Progress progress{.stage = Progress::Stage::kDenoise,
                    .total = plan.steps * plan.passes() * model.transformer.num_layers,
                    .num_steps = plan.steps};
  const Status sampled =
      denoise({.plan = &plan,
               .model = &transformer,
               .timestep_scale = static_cast<double>(model.num_train_timesteps),
               .prompt = &prompt,
               .negative = &negative,
               .context = {.backend = options.backend, .num_threads = nn::num_threads()},
               .cancel = options.cancel,
               .on_layer =
                   [&](int64_t step) {
                     ++progress.done;
                     progress.step = step;
                     tell(options, progress);
                   }},
              latents.values.span(), report.step_reports, latents.steps_done);
  report.steps_done = latents.steps_done;
  if (options.latents.empty()) return sampled;
  const Status saved = save_latents(options.latents, latents);
  if (saved.ok()) report.latents_path = options.latents.string();
  if (sampled.ok()) return saved;
  return {sampled.code(),
          fmt::format("{}; {}", sampled.message(),
                      saved.ok()
                          ? fmt::format("the latents after {} of {} steps are in {}",
                                        latents.steps_done, latents.steps, options.latents.string())
                          : saved.message())};
}

/// RGB frames of [3, frames, height, width] in [-1, 1].
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

double mean_kept_share(const std::vector<StepReport>& steps) {
  double sum = 0.0;
  int64_t count = 0;
  for (const StepReport& step : steps) {
    for (const LayerReport& layer : step.layers) {
      sum += layer.kept_share;
      ++count;
    }
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // Linux counts in KiB
}

Result<video::Frames> run(const GenerateOptions& options, GenerateReport& report) {
  const Timer timer(report.total_ms);
  const nn::ThreadCount threads(options.num_threads);
  const Result<ModelFolder> model = ModelFolder::open(options.model);
  VSA_TRY(model.status());
  const auto text_weights = io::Checkpoint::open(model->text_encoder_weights());
  VSA_TRY(text_weights.status());
  const auto weights = io::Checkpoint::open(model->transformer_weights());
  VSA_TRY(weights.status());
  const Result<TrainedWith> trained = trained_with(weights->metadata());
  VSA_TRY(trained.status());
  const Result<RunPlan> plan = plan_run(options, *model, *trained);
  VSA_TRY(plan.status());
  describe(options, *model, *plan, report);
  if (!options.latents.empty()) VSA_TRY(io::check_writable(options.latents));

  const Result<Texts> texts =
      encode_texts(options, *model, *text_weights, plan->passes() == 2, report);
  VSA_TRY(texts.status());
  const auto transformer = load_transformer(options, *model, *weights, report);
  VSA_TRY(transformer.status());
  VSA_TRY(hash_files(*model, *text_weights, *weights, report));
  Latents latents = empty_latents(options, *model, *plan, report);
  VSA_TRY(sample(options, *model, *plan, *transformer, *texts, latents, report));
  report.kept_share = mean_kept_share(report.step_reports);

  const Timer decoding(report.decode_ms);
  if (cancelled(options)) {
    return Status(StatusCode::kCancelled, "[generate] cancelled before decoding");
  }
  auto frames = to_frames(latents);
  tell(options, {.stage = Progress::Stage::kDecode, .done = plan->frames, .total = plan->frames});
  return frames;
}

}  // namespace

std::string_view name(Attention attention) {
  return attention == Attention::kVsa ? "vsa" : "dense";
}

Result<Attention> attention_from_name(std::string_view wanted) {
  for (const Attention attention : {Attention::kVsa, Attention::kDense}) {
    if (wanted == name(attention)) return attention;
  }
  return invalid_argument(
      fmt::format("[generate] attention: expected vsa or dense, got {}", wanted));
}

Result<video::Frames> generate(const GenerateOptions& options, GenerateReport& report) {
  report = {};
  Result<video::Frames> frames = Status(StatusCode::kInternal, "[generate] did not run");
  try {
    frames = run(options, report);
  } catch (const std::bad_alloc&) {
    frames = out_of_memory("[generate] not enough memory");
  } catch (const std::exception& fault) {
    frames = Status(StatusCode::kInternal, fmt::format("[generate] {}", fault.what()));
  }
  report.peak_memory_bytes = peak_memory_bytes();
  return frames;
}

Result<Decoded> decode(const fs::path& path) {
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
                   .seed = latents->seed};
  } catch (const std::bad_alloc&) {
    return out_of_memory("[decode] not enough memory");
  }
}

}  // namespace vsa::runtime
