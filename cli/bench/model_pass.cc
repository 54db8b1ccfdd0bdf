// Passes of a model's transformer, timed whole and by the calls of a pass. Host-only.
#include "cli/bench/model_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/bench/measure.h"
#include "cli/common/build_info.h"
#include "cli/common/failure.h"
#include "cli/common/interrupt.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/table.h"
#include "runtime/denoise.h"
#include "runtime/device/memory.h"
#include "runtime/dit/cpu/model.h"
#include "runtime/dit/device/model.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/parallel.h"
#include "runtime/run_plan.h"
#include "runtime/sampler/noise.h"

namespace vsa::cli {
namespace {

constexpr int64_t kPromptTokens = 64;

/// A model's transformer on a backend, and what a pass of it is given.
class Passes {
 public:
  Passes(const ModelPassOptions& options, BackendId backend) {
    runtime::GenerateOptions run = options.run.to_runtime();
    run.seed = 0;
    run.backend = backend;
    model_ = take(runtime::ModelFolder::open(run.model, run.choice));
    file_ = take(model_.open_transformer());
    dit::LoadReport loaded;
    const dit::WanWeights weights = take(dit::find_weights(model_.transformer, file_, loaded));
    plan = take(runtime::plan_run(run, model_, take(runtime::trained_with(file_.metadata()))));
    if (plan.on_device) {
      memory_ = take(device::Memory::of(backend));
      transformer_ = take(dit::device::DeviceModel::load(weights, memory_));
    } else {
      transformer_ = take(
          dit::cpu::make_model(weights, {.backend = backend, .num_threads = nn::num_threads()}));
    }
    text::TextEmbedding text{.rows = nn::Buffer(model_.max_sequence_length * config().text_dim),
                             .num_rows = model_.max_sequence_length,
                             .num_valid = std::min(kPromptTokens, model_.max_sequence_length)};
    std::ranges::fill(text.rows.span(), 0.0F);
    const auto valid = static_cast<size_t>(text.num_valid * config().text_dim);
    sampler::normal(1, 0, 0, text.rows.span().first(valid));
    text_ = take(transformer_->prepare_text(text));
    steps_ =
        take(transformer_->make_steps(plan.grid, take(TilePlan::grid(plan.grid, plan.tiling))));
    latents_.resize(static_cast<size_t>(runtime::latent_size(plan, config())));
    sampler::normal(1, 1, 0, latents_);
    velocity_.resize(latents_.size());
    for (int64_t n = 0; n < config().num_layers; ++n) {
      topk_.push_back(plan.is_dense(plan.dense_steps, n) ? plan.num_tiles : plan.topk);
    }
  }

  const dit::WanConfig& config() const { return model_.transformer; }

  /// Milliseconds from latents to velocity.
  /// @param stats  as dit::forward
  double run(std::span<dit::LayerStats> stats = {}) {
    const auto start = std::chrono::steady_clock::now();
    check(dit::forward({.latents = latents_.data(),
                        .timestep = 500.0F,
                        .text = text_.get(),
                        .topk = topk_,
                        .on_layer = {},
                        .velocity = velocity_.data()},
                       *steps_, stats));
    const auto passed = std::chrono::steady_clock::now() - start;
    if (!nn::all_finite(velocity_)) {
      throw Failure(ExitCode::kFailed, "velocity: expected finite numbers, got NaN or infinity");
    }
    return std::chrono::duration<double, std::milli>(passed).count();
  }

  /// A pass by the kinds of its calls: on a device those of the library, elsewhere the steps.
  device::CallTimes by_kind() {
    device::CallTimes times;
    if (memory_) {
      memory_->measure_calls(&times);
      run();
      memory_->measure_calls(nullptr);
      return times;
    }
    std::vector<dit::LayerStats> stats(topk_.size());
    run(stats);
    for (const dit::LayerStats& layer : stats) {
      const auto add = [&](const char* kind, double ms) {
        device::CallTime& time = times[kind];
        ++time.calls;
        time.ms += ms;
      };
      add("project", layer.qkv_ms);
      add("attention", layer.attention_ms);
      add("text attention", layer.cross_ms);
      add("feed-forward", layer.ffn_ms);
    }
    return times;
  }

  /// The most device memory that was taken; 0 on the host.
  int64_t device_bytes() const { return memory_ ? memory_->most_bytes_taken() : 0; }

  runtime::RunPlan plan;

 private:
  runtime::ModelFolder model_;
  io::Checkpoint file_;
  std::shared_ptr<device::Memory> memory_;
  std::unique_ptr<dit::Model> transformer_;
  std::unique_ptr<dit::TextContext> text_;
  std::unique_ptr<dit::Steps> steps_;
  std::vector<float> latents_, velocity_;
  std::vector<int64_t> topk_;
};

}  // namespace

void bench_model_pass(const ModelPassOptions& options) {
  const Context context = options.backend.context();
  const nn::ThreadCount threads(context.num_threads);
  const InterruptScope interrupt;
  ProgressBar bar;
  Passes passes(options, context.backend);
  const runtime::RunPlan& plan = passes.plan;
  std::vector<double> ms;
  passes.run();  // warms up
  for (int64_t i = 0; i < options.repeats; ++i) {
    bar.update("pass", i, options.repeats);
    interrupt.check();
    ms.push_back(passes.run());
  }
  const device::CallTimes kinds = passes.by_kind();
  bar.clear();
  if (options.json) {
    nlohmann::ordered_json line = {
        {"model", options.run.model},  {"grid", {plan.grid.f, plan.grid.h, plan.grid.w}},
        {"num_tiles", plan.num_tiles}, {"topk", plan.all_dense ? plan.num_tiles : plan.topk},
        {"repeats", options.repeats},  {"median_ms", quantile(ms, 0.5)},
        {"iqr_ms", iqr(ms)},           {"min_ms", quantile(ms, 0.0)}};
    for (const auto& [kind, time] : kinds) {
      line["kinds"][kind] = {{"calls", time.calls}, {"ms", time.ms}};
      if (time.flops > 0.0) line["kinds"][kind]["flops"] = time.flops;
      if (time.bytes > 0.0) line["kinds"][kind]["bytes"] = time.bytes;
    }
    if (passes.device_bytes() > 0) line["device_bytes"] = passes.device_bytes();
    line["backend"] = options.backend.backend;
    line["backend_detail"] = plan.backend_detail;
    line["commit"] = commit();
    print_json_line(line);
    return;
  }
  Table table({"part of a pass", "calls", "ms", "TFLOP/s", "GB/s"});
  const auto rate = [](double count, double scale, double time_ms) {
    return count > 0.0 ? fmt::format("{:.0f}", count / time_ms * scale) : "";
  };
  for (const auto& [kind, time] : kinds) {
    table.add({kind, std::to_string(time.calls), fmt::format("{:.3f}", time.ms),
               rate(time.flops, 1e-9, time.ms), rate(time.bytes, 1e-6, time.ms)});
  }
  print_result(fmt::format(
      "{}: {} layers, {} tokens, {} of {} tiles kept, {} ({})\n"
      "a pass: median {:.2f} ms, IQR {:.2f} ms, {} passes\n{}",
      options.run.model, passes.config().num_layers, plan.grid.num_tokens(),
      plan.all_dense ? plan.num_tiles : plan.topk, plan.num_tiles, options.backend.backend,
      plan.backend_detail, quantile(ms, 0.5), iqr(ms), options.repeats, table.to_string()));
}

}  // namespace vsa::cli
