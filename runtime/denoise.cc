// From noise to latents: the transformer under the sampler. Host-only.
#include "runtime/denoise.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "runtime/nn/elementwise.h"
#include "runtime/sampler/guidance.h"
#include "runtime/sampler/noise.h"

namespace vsa::runtime {
namespace {

/// The stream of the initial noise. A sampler that draws fresh noise at step i uses i + 1.
constexpr uint64_t kInitialNoise = 0;

Status in_step(int64_t step, const Status& status) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("[generate] step {}, {}", step, status.message())};
}

LayerReport layer_report(const dit::LayerStats& stats, bool dense) {
  return {.route = dense ? "dense" : "vsa",
          .kept_share = stats.all_tiles == 0 ? 0.0
                                             : static_cast<double>(stats.kept_tiles) /
                                                   static_cast<double>(stats.all_tiles),
          .qkv_ms = stats.qkv_ms,
          .attention_ms = stats.attention_ms,
          .cross_ms = stats.cross_ms,
          .ffn_ms = stats.ffn_ms};
}

/// What a pass kept that was not looked at layer by layer: top-k keeps just so many tiles.
void count_kept(const DenoiseArgs& args, std::span<const int64_t> topk,
                std::span<dit::LayerStats> stats) {
  const int64_t rows = args.model->config().num_heads * args.plan->num_tiles;
  for (size_t n = 0; n < stats.size(); ++n) {
    stats[n].kept_tiles += rows * topk[n];
    stats[n].all_tiles += rows * args.plan->num_tiles;
  }
}

/// The tensors of one run.
struct Sampling {
  std::unique_ptr<dit::Steps> steps;
  nn::Buffer v_cond, v_uncond;
};

/// One step up to the guided velocity in sampling.v_cond; x is only read.
Status predict(const DenoiseArgs& args, int64_t step, std::span<const float> x, Sampling& sampling,
               std::span<dit::LayerStats> stats) {
  const RunPlan& plan = *args.plan;
  std::vector<int64_t> topk;
  for (int64_t n = 0; n < args.model->config().num_layers; ++n) {
    topk.push_back(plan.is_dense(step, n) ? plan.num_tiles : plan.topk);
  }
  const auto run = [&](const dit::TextContext* text, nn::Buffer& velocity,
                       std::span<dit::LayerStats> of_layers) {
    return dit::forward(
        {.latents = x.data(),
         .timestep = static_cast<float>(plan.schedule.timesteps[static_cast<size_t>(step)]),
         .text = text,
         .topk = topk,
         .cancel = args.cancel,
         .on_layer =
             [&] {
               if (args.on_layer) args.on_layer(step);
             },
         .velocity = velocity.data()},
        *sampling.steps, of_layers);
  };
  const auto pass = [&](const dit::TextContext* text, nn::Buffer& velocity) -> Status {
    if (!args.model->enqueues()) return run(text, velocity, stats);
    VSA_TRY(run(text, velocity, {}));
    // A pass again, layer by layer, finds the first one that made the number.
    if (!nn::all_finite(velocity.span())) return run(text, velocity, stats);
    count_kept(args, topk, stats);
    return {};
  };
  VSA_TRY(pass(args.prompt, sampling.v_cond));
  if (plan.passes() == 1) return {};
  VSA_TRY(pass(args.negative, sampling.v_uncond));
  sampler::guide(plan.guidance, sampling.v_uncond.span(), sampling.v_cond.span());
  return {};
}

}  // namespace

int64_t latent_size(const RunPlan& plan, const dit::WanConfig& config) {
  return plan.grid.num_tokens() * config.patch.volume() * config.in_channels;
}

Status denoise(const DenoiseArgs& args, std::span<float> x, std::vector<StepReport>& step_reports) {
  const RunPlan& plan = *args.plan;
  const int64_t layers = args.model->config().num_layers;
  if (args.sampler->steps_done() == 0) {
    sampler::normal(static_cast<uint64_t>(plan.seed), kInitialNoise, 0, x);
  }
  Result<TilePlan> tiles = TilePlan::grid(plan.grid, plan.tiling);
  if (!tiles.ok()) return tiles.status();
  auto steps = args.model->make_steps(plan.grid, std::move(*tiles));
  VSA_TRY(steps.status());
  Sampling sampling{.steps = std::move(*steps),
                    .v_cond = nn::Buffer(std::ssize(x)),
                    .v_uncond = nn::Buffer(plan.passes() == 1 ? 0 : std::ssize(x))};
  for (int64_t step = args.sampler->steps_done(); step < plan.steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<dit::LayerStats> stats(static_cast<size_t>(layers));
    Status status = predict(args, step, x, sampling, stats);
    if (status.ok() && !nn::all_finite(sampling.v_cond.span())) {
      status = Status(StatusCode::kInternal,
                      "output layer: expected finite values, got NaN or infinity");
    }
    if (status.ok() && args.on_prediction) {
      status = args.on_prediction(step, x, sampling.v_cond.span());
    }
    if (status.ok()) status = args.sampler->step(sampling.v_cond.span(), x);
    StepReport& report = step_reports.emplace_back(
        StepReport{.sigma = plan.schedule.sigmas[static_cast<size_t>(step)],
                   .timestep = plan.schedule.timesteps[static_cast<size_t>(step)],
                   .layers = {}});
    for (int64_t n = 0; n < layers; ++n) {
      report.layers.push_back(layer_report(stats[static_cast<size_t>(n)], plan.is_dense(step, n)));
    }
    report.ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    VSA_TRY(in_step(step, status));
  }
  return {};
}

}  // namespace vsa::runtime
