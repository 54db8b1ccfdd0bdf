// From a prompt to frames. Host-only.
#include "runtime/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/decode.h"
#include "runtime/denoise.h"
#include "runtime/file_hashes.h"
#include "runtime/fill_report.h"
#include "runtime/io/atomic_file.h"
#include "runtime/latents.h"
#include "runtime/memory.h"
#include "runtime/model_folder.h"
#include "runtime/nn/parallel.h"
#include "runtime/resume.h"
#include "runtime/run_plan.h"
#include "runtime/run_weights.h"
#include "runtime/sample_stage.h"
#include "runtime/sampler/sampler.h"
#include "runtime/system/limits.h"
#include "runtime/text_stage.h"
#include "runtime/timer.h"
#include "runtime/vae_stage.h"

namespace vsa::runtime {
namespace {

Status check_latents_writable(const GenerateOptions& options, const ModelFolder& model,
                              const RunPlan& plan) {
  if (options.latents.empty()) return {};
  // With what the sampler would need to go on, should the run be interrupted.
  const int64_t tensors = 1 + sampler::num_extra_tensors(plan.schedule.kind);
  const int64_t bytes =
      tensors * latent_size(plan, model.transformer) * static_cast<int64_t>(sizeof(float));
  return io::check_writable(options.latents, bytes);
}

/// The latents of the run that is resumed, if there is one.
Result<std::optional<Latents>> load_begun(const GenerateOptions& options,
                                          const GenerateReport& report) {
  if (options.resume.empty()) return std::optional<Latents>();
  Result<Latents> loaded = load_latents(options.resume);
  VSA_TRY(loaded.status());
  VSA_TRY(check_same_run(*loaded, report));
  if (loaded->steps_done == loaded->steps) {
    return invalid_argument(
        fmt::format("[generate] resume: expected latents of a run that was interrupted, got {} of "
                    "{} steps in {}; decode them instead",
                    loaded->steps_done, loaded->steps, options.resume.string()));
  }
  return std::optional<Latents>(std::move(*loaded));
}

/// The map of previews, if there are any.
Result<std::optional<LatentColours>> preview_colours(const GenerateOptions& options,
                                                     const ModelFolder& model,
                                                     const RunWeights& weights) {
  if (options.preview.every < 1) return std::optional<LatentColours>();
  if (!model.vae) return std::optional(LatentColours::of_pixels());
  const auto decoder = load_decoder(*model.vae, *weights.vae_file);
  VSA_TRY(decoder.status());
  Result<LatentColours> fitted = LatentColours::fit(**decoder);
  VSA_TRY(explain(fitted.status(), *weights.vae_file, "VAE"));
  return std::optional(std::move(*fitted));
}

/// The last stage.
Result<video::Frames> decode_run(const GenerateOptions& options, const ModelFolder& model,
                                 const RunPlan& plan, const RunWeights& weights,
                                 const Latents& latents, GenerateReport& report) {
  const Timer decoding(report.decode_ms);
  const auto tell = [&](int64_t done, int64_t all) {
    if (!options.on_progress) return;
    options.on_progress({.stage = Progress::Stage::kDecode, .done = done, .total = all});
  };
  if (options.cancel != nullptr && *options.cancel) {
    return Status(StatusCode::kCancelled, "[generate] cancelled before decoding");
  }
  if (!model.vae) {
    auto frames = to_frames(latents, options.feed);
    tell(plan.frames, plan.frames);
    return frames;
  }
  const auto decoder =
      make_decoder(*model.vae, *weights.vae_file, latents.shape, options.backend, options.device);
  VSA_TRY(decoder.status());
  auto frames = decode_latents(
      latents, *decoder->model,
      {.split = decoder->split, .cancel = options.cancel, .on_layer = tell, .feed = options.feed});
  if (decoder->memory != nullptr) {
    report.peak_device_bytes =
        std::max(report.peak_device_bytes, decoder->memory->most_bytes_taken());
  }
  if (frames.ok()) return frames;
  return explain(frames.status(), *weights.vae_file, "VAE");
}

Result<video::Frames> run(const GenerateOptions& options, GenerateReport& report) {
  const Timer timer(report.total_ms);
  const nn::ThreadCount threads(options.num_threads > 0 ? options.num_threads
                                                        : system::default_num_threads());
  const Result<ModelFolder> model = ModelFolder::open(options.model, options.choice);
  VSA_TRY(model.status());
  // Headers alone: what is missing or does not fit is told before anything is computed.
  const auto weights = RunWeights::open(options, *model, report);
  VSA_TRY(weights.status());
  const auto trained = trained_with((*weights)->transformer_file.metadata());
  VSA_TRY(trained.status());
  const Result<RunPlan> plan = plan_run(options, *model, *trained);
  VSA_TRY(plan.status());
  describe(options, *model, *plan, report);
  warn_of_weights(options, report);
  VSA_TRY(check_memory(*plan, *model, (*weights)->transformer_file, (*weights)->text_file));
  if (plan->on_device) {
    VSA_TRY(check_device_memory(*plan, *model, (*weights)->transformer, options));
  }
  VSA_TRY(check_latents_writable(options, *model, *plan));
  const auto begun = load_begun(options, report);
  VSA_TRY(begun.status());
  FileHashes hashes(model->root, model_files(*model, (*weights)->files()));

  const Result<Texts> texts = encode_texts(options, *model, *plan, **weights, report);
  VSA_TRY(texts.status());
  const auto colours = preview_colours(options, *model, **weights);
  VSA_TRY(colours.status());
  const Result<Latents> latents = sample({.options = &options,
                                          .model = &*model,
                                          .plan = &*plan,
                                          .weights = weights->get(),
                                          .texts = &*texts,
                                          .begun = *begun ? &**begun : nullptr,
                                          .colours = *colours ? &**colours : nullptr,
                                          .hashes = &hashes},
                                         report);
  VSA_TRY(latents.status());
  report.kept_share = mean_kept_share(report.step_reports);
  return decode_run(options, *model, *plan, **weights, *latents, report);
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
  } catch (const Error& fault) {
    frames = Status(fault.code(), fault.what());
  } catch (const std::exception& fault) {
    frames = Status(StatusCode::kInternal, fmt::format("[generate] {}", fault.what()));
  }
  report.peak_memory_bytes = peak_memory_bytes();
  return frames;
}

}  // namespace vsa::runtime
