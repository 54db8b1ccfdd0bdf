// From a prompt to frames. Host-only.
#include "runtime/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/decode.h"
#include "runtime/denoise.h"
#include "runtime/dit/cpu/model.h"
#include "runtime/fill_report.h"
#include "runtime/io/atomic_file.h"
#include "runtime/latents.h"
#include "runtime/made_by.h"
#include "runtime/memory.h"
#include "runtime/model_folder.h"
#include "runtime/nn/parallel.h"
#include "runtime/resume.h"
#include "runtime/run_plan.h"
#include "runtime/sampler/sampler.h"
#include "runtime/system/limits.h"
#include "runtime/text/clean.h"
#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/umt5.h"
#include "runtime/text_warnings.h"

namespace vsa::runtime {
namespace {

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

/// Embeddings of both prompts. The encoder lives only here: the transformer gets its memory.
struct Texts {
  text::TextEmbedding prompt, negative;
};
Result<Texts> encode_texts(const GenerateOptions& options, const ModelFolder& model,
                           const io::Checkpoint& weights, bool guided, GenerateReport& report) {
  const Timer timer(report.text_ms);
  const Result<text::Tokenizer> tokenizer = model.open_tokenizer();
  VSA_TRY(tokenizer.status());
  const auto prompt = tokenizer->encode(options.prompt, model.max_sequence_length);
  const auto negative = tokenizer->encode(options.negative_prompt, model.max_sequence_length);
  VSA_TRY(prompt.status());
  VSA_TRY(negative.status());
  const auto warn = [&](const char* which, const std::string& text, const text::Tokens& tokens) {
    for (const std::string& warning : text_warnings(text, tokens, model)) {
      report.warnings.push_back(fmt::format("{}: {}", which, warning));
    }
  };
  warn("prompt", options.prompt, *prompt);
  if (guided) warn("negative prompt", options.negative_prompt, *negative);
  nn::LoadSummary summary;
  auto found = text::find_umt5_weights(model.text_encoder, weights, summary);
  VSA_TRY(found.status());
  auto steps = text::cpu::make_steps(*found);
  VSA_TRY(steps.status());
  text::Umt5Encoder encoder(std::move(*found), std::move(*steps));
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
  auto embedded = encoder.encode(prompt->ids, model.max_sequence_length, control);
  VSA_TRY(embedded.status());
  texts.prompt = std::move(*embedded);
  if (guided) {
    embedded = encoder.encode(negative->ids, model.max_sequence_length, control);
    VSA_TRY(embedded.status());
    texts.negative = std::move(*embedded);
  }
  return texts;
}

Result<std::unique_ptr<dit::Model>> load_transformer(const GenerateOptions& options,
                                                     const ModelFolder& model,
                                                     const io::Checkpoint& checkpoint,
                                                     GenerateReport& report) {
  const Timer timer(report.load_ms);
  dit::LoadReport loaded;
  const auto weights = dit::find_weights(model.transformer, checkpoint, loaded, options.loras);
  VSA_TRY(weights.status());
  auto transformer = dit::cpu::make_model(
      *weights, {.backend = options.backend, .num_threads = nn::num_threads()});
  VSA_TRY(transformer.status());
  report.transformer = weights_report(loaded.summary, loaded.naming);
  report.transformer.has_gates = loaded.has_gates;
  report.changed_by_loras = loaded.changed;
  for (const dit::LoraSpec& lora : options.loras) {
    const Result<FileReport> file = file_report(model.root, lora.file);
    VSA_TRY(file.status());
    report.loras.push_back({.path = file->path, .strength = lora.strength, .sha256 = file->sha256});
  }
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

Latents empty_latents(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
                      const GenerateReport& report) {
  const dit::WanConfig& config = model.transformer;
  const std::string folder = options.model.string();
  // A path may have any bytes, metadata must be UTF-8.
  const bool is_text = text::clean_prompt(folder).ok();
  Latents latents{.values = nn::Buffer(latent_size(plan, config)),
                  .shape = {config.in_channels, plan.frames, plan.size.height, plan.size.width},
                  .model = is_text ? folder : std::string(),
                  .transformer_sha256 = report.transformer_sha256,
                  .prompt = options.prompt,
                  .negative_prompt = plan.negative_prompt,
                  .seed = plan.seed,
                  .steps = plan.steps,
                  .guidance = plan.guidance,
                  .shift = model.scheduler.shift,
                  .fps = plan.fps,
                  .scheduler = std::string(sampler::name(model.scheduler.kind)),
                  .attention = std::string(name(options.attention)),
                  .topk = plan.topk,
                  .made_by = {}};
  return latents;
}

/// The sampler's run, and the latents file whatever its outcome.
/// @param begun  of a run that goes on, or null
Status sample(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
              dit::Model& transformer, const Texts& texts, const Latents* begun, Latents& latents,
              GenerateReport& report) {
  const Timer timer(report.denoise_ms);
  const auto prompt = transformer.prepare_text(texts.prompt);
  VSA_TRY(prompt.status());
  Result<std::unique_ptr<dit::TextContext>> negative(nullptr);
  if (plan.passes() == 2) negative = transformer.prepare_text(texts.negative);
  VSA_TRY(negative.status());
  Progress progress{.stage = Progress::Stage::kDenoise,
                    .total = plan.steps * plan.passes() * model.transformer.num_layers,
                    .num_steps = plan.steps};
  const auto sampler =
      sampler::make_sampler(plan.schedule, latents.values.size(), static_cast<uint64_t>(plan.seed));
  if (begun != nullptr) {
    VSA_TRY(resume(*begun, report, latents, *sampler));
    progress.done = sampler->steps_done() * plan.passes() * model.transformer.num_layers;
  }
  const Status sampled = denoise({.plan = &plan,
                                  .model = &transformer,
                                  .sampler = sampler.get(),
                                  .prompt = prompt->get(),
                                  .negative = negative->get(),
                                  .cancel = options.cancel,
                                  .on_layer =
                                      [&](int64_t step) {
                                        ++progress.done;
                                        progress.step = step;
                                        tell(options, progress);
                                      }},
                                 latents.values.span(), report.step_reports);
  keep_progress(*sampler, latents);
  report.steps_done = latents.steps_done;
  latents.made_by = made_by_json(report);
  if (options.latents.empty()) return sampled;
  const auto saved = save_latents(options.latents, latents, options.latents_name);
  if (saved.ok()) {
    report.latents_file = *saved;
    report.latents_path = saved->path.string();
  }
  if (sampled.ok()) return saved.status();
  return {
      sampled.code(),
      fmt::format("{}; {}", sampled.message(),
                  saved.ok() ? fmt::format("the latents after {} of {} steps are in {}",
                                           latents.steps_done, latents.steps, report.latents_path)
                             : saved.status().message())};
}

Result<video::Frames> run(const GenerateOptions& options, GenerateReport& report) {
  const Timer timer(report.total_ms);
  const nn::ThreadCount threads(options.num_threads > 0 ? options.num_threads
                                                        : system::default_num_threads());
  const Result<ModelFolder> model = ModelFolder::open(options.model, options.choice);
  VSA_TRY(model.status());
  if (model->has_vae) {
    return unsupported(fmt::format("[model] {}: vae: expected none, got one: not supported yet",
                                   model->root.string()));
  }
  const auto text_weights = model->open_text_encoder();
  VSA_TRY(text_weights.status());
  const auto weights = model->open_transformer();
  VSA_TRY(weights.status());
  const Result<TrainedWith> trained = trained_with(weights->metadata());
  VSA_TRY(trained.status());
  const Result<RunPlan> plan = plan_run(options, *model, *trained);
  VSA_TRY(plan.status());
  describe(options, *model, *plan, report);
  VSA_TRY(check_memory(*plan, model->transformer, *weights, *text_weights));
  if (!options.latents.empty()) {
    // With what the sampler would need to go on, should the run be interrupted.
    const int64_t tensors = 1 + sampler::num_extra_tensors(plan->schedule.kind);
    const int64_t bytes =
        tensors * latent_size(*plan, model->transformer) * static_cast<int64_t>(sizeof(float));
    VSA_TRY(io::check_writable(options.latents, bytes));
  }
  std::optional<Latents> begun;
  if (!options.resume.empty()) {
    Result<Latents> loaded = load_latents(options.resume);
    VSA_TRY(loaded.status());
    begun = std::move(*loaded);
    VSA_TRY(check_same_run(*begun, report));
  }

  const Result<Texts> texts =
      encode_texts(options, *model, *text_weights, plan->passes() == 2, report);
  VSA_TRY(texts.status());
  const auto transformer = load_transformer(options, *model, *weights, report);
  VSA_TRY(transformer.status());
  for (const auto& path : model_files(*model, {&*text_weights, &*weights})) {
    Result<FileReport> file = file_report(model->root, path);
    VSA_TRY(file.status());
    if (std::ranges::find(weights->paths(), path) != weights->paths().end()) {
      report.transformer_sha256 += (report.transformer_sha256.empty() ? "" : ",") + file->sha256;
    }
    report.files.push_back(std::move(*file));
  }
  Latents latents = empty_latents(options, *model, *plan, report);
  VSA_TRY(sample(options, *model, *plan, **transformer, *texts, begun ? &*begun : nullptr, latents,
                 report));
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

}  // namespace vsa::runtime
