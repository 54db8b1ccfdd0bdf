// The second stage of a run: from noise to latents, and the file that keeps them.
#include "runtime/sample_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/denoise.h"
#include "runtime/device/memory.h"
#include "runtime/dit/cpu/model.h"
#include "runtime/dit/device/model.h"
#include "runtime/fill_report.h"
#include "runtime/made_by.h"
#include "runtime/memory.h"
#include "runtime/nn/parallel.h"
#include "runtime/resume.h"
#include "runtime/sampler/sampler.h"
#include "runtime/text/clean.h"
#include "runtime/timer.h"

namespace vsa::runtime {
namespace {

void tell(const GenerateOptions& options, const Progress& progress) {
  if (options.on_progress) options.on_progress(progress);
}

Result<std::unique_ptr<dit::Model>> make_transformer(const dit::WanWeights& weights,
                                                     const RunPlan& plan,
                                                     const GenerateOptions& options) {
  if (!plan.on_device) {
    return dit::cpu::make_model(weights,
                                {.backend = options.backend, .num_threads = nn::num_threads()});
  }
  auto memory = device::Memory::of(options.backend, options.device);
  VSA_TRY(memory.status());
  return dit::device::DeviceModel::load(weights, std::move(*memory), options.offload);
}

Result<std::unique_ptr<dit::Model>> load_transformer(const SampleArgs& args,
                                                     GenerateReport& report) {
  const Timer timer(report.load_ms);
  auto transformer = make_transformer(args.weights->transformer, *args.plan, *args.options);
  VSA_TRY(transformer.status());
  tell(*args.options, {.stage = Progress::Stage::kLoad, .done = 1, .total = 1});
  return transformer;
}

/// Waits for the hashes of the files, and notes them.
Status note_files(const SampleArgs& args, GenerateReport& report) {
  const auto& files = args.hashes->get();
  VSA_TRY(files.status());
  report.files = *files;
  const auto joined = [&](const io::Checkpoint& part) {
    std::string hashes;
    for (const std::filesystem::path& path : part.paths()) {
      const std::string name = path_in_report(args.model->root, path);
      const auto file = std::ranges::find(report.files, name, &FileReport::path);
      if (file == report.files.end()) continue;
      hashes += (hashes.empty() ? "" : ",") + file->sha256;
    }
    return hashes;
  };
  report.transformer_sha256 = joined(args.weights->transformer_file);
  report.text_encoder_sha256 = joined(args.weights->text_file);
  return {};
}

Latents empty_latents(const SampleArgs& args) {
  const RunPlan& plan = *args.plan;
  const GenerateOptions& options = *args.options;
  // A path may have any bytes, metadata must be UTF-8.
  const auto as_text = [](const std::string& path) {
    return text::clean_prompt(path).ok() ? path : std::string();
  };
  return {.values = nn::Buffer(latent_size(plan, args.model->transformer)),
          .shape = latent_shape(plan, args.model->transformer),
          .space = args.model->vae ? kWanSpace : kPixelSpace,
          .model = as_text(options.model.string()),
          .vae = as_text(options.choice.parts.vae.string()),
          .variant = as_text(options.choice.variant),
          .transformer_sha256 = {},
          .prompt = options.prompt,
          .negative_prompt = plan.negative_prompt,
          .seed = plan.seed,
          .steps = plan.steps,
          .guidance = plan.guidance,
          .shift = plan.scheduler.shift,
          .fps = plan.fps,
          .scheduler = std::string(sampler::name(plan.scheduler.kind)),
          .attention = std::string(name(options.attention)),
          .topk = plan.topk,
          .made_by = {}};
}

/// Shows the predicted video after the steps that the options ask for.
std::function<Status(int64_t, std::span<const float>, std::span<const float>)> preview_of(
    const SampleArgs& args, const Latents& latents) {
  if (args.colours == nullptr) return {};
  return [&args, &latents](int64_t step, std::span<const float> x, std::span<const float> v) {
    if ((step + 1) % args.options->preview.every != 0) return Status();
    const auto sigma = static_cast<float>(args.plan->schedule.sigmas[static_cast<size_t>(step)]);
    nn::Buffer x0(std::ssize(x));
    for (size_t i = 0; i < x.size(); ++i) x0.data()[i] = x[i] - sigma * v[i];
    return args.options->preview.show(step, args.colours->picture(x0.span(), latents.shape));
  };
}

/// The sampler's run.
Status run_sampler(const SampleArgs& args, dit::Model& transformer, sampler::Sampler& sampler,
                   Latents& latents, GenerateReport& report) {
  const RunPlan& plan = *args.plan;
  const auto prompt = transformer.prepare_text(args.texts->prompt);
  VSA_TRY(prompt.status());
  Result<std::unique_ptr<dit::TextContext>> negative(nullptr);
  if (plan.passes() == 2) negative = transformer.prepare_text(args.texts->negative);
  VSA_TRY(negative.status());
  const int64_t layers = plan.passes() * args.model->transformer.num_layers;
  Progress progress{.stage = Progress::Stage::kDenoise,
                    .done = sampler.steps_done() * layers,
                    .total = plan.steps * layers,
                    .num_steps = plan.steps};
  return denoise({.plan = &plan,
                  .model = &transformer,
                  .sampler = &sampler,
                  .prompt = prompt->get(),
                  .negative = negative->get(),
                  .cancel = args.options->cancel,
                  .on_layer =
                      [&](int64_t step) {
                        ++progress.done;
                        progress.step = step;
                        tell(*args.options, progress);
                      },
                  .on_prediction = preview_of(args, latents)},
                 latents.values.span(), report.step_reports);
}

/// Writes the latents file; a failure of the run says where it is.
Status save(const SampleArgs& args, const Status& sampled, const Latents& latents,
            GenerateReport& report) {
  if (args.options->latents.empty()) return sampled;
  const auto saved = save_latents(args.options->latents, latents, args.options->latents_name);
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

}  // namespace

Result<Latents> sample(const SampleArgs& args, GenerateReport& report) {
  auto transformer = load_transformer(args, report);
  VSA_TRY(transformer.status());
  const Timer timer(report.denoise_ms);
  Latents latents = empty_latents(args);
  const auto sampler = sampler::make_sampler(args.plan->schedule, latents.values.size(),
                                             static_cast<uint64_t>(args.plan->seed));
  if (args.begun != nullptr) {
    VSA_TRY(note_files(args, report));  // with which weights the resumed run began
    VSA_TRY(resume(*args.begun, report, latents, *sampler));
  }
  Status sampled = run_sampler(args, **transformer, *sampler, latents, report);
  report.peak_device_bytes = (*transformer)->most_device_bytes();
  sampled = explain(sampled, args.weights->transformer_file, "transformer");
  // A run that was stopped before its first step does not wait for gigabytes.
  if (sampled.ok() || sampler->steps_done() > 0 || args.hashes->done()) {
    VSA_TRY(note_files(args, report));
  }
  latents.transformer_sha256 = report.transformer_sha256;
  keep_progress(*sampler, latents);
  report.steps_done = latents.steps_done;
  latents.made_by = made_by_json(report);
  VSA_TRY(save(args, sampled, latents, report));
  return latents;
}

}  // namespace vsa::runtime
