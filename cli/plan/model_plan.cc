// The text and the JSON of `vsa plan --model`. Host-only.
#include "cli/plan/model_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/common/table.h"
#include "cli/plan/model_cost.h"
#include "runtime/memory.h"
#include "runtime/run_weights.h"
#include "runtime/system/limits.h"

namespace vsa::cli {
namespace {

/// Everything the command reports.
struct ModelFacts {
  runtime::ModelFolder model;
  runtime::RunPlan plan;
  runtime::GenerateReport weights;  ///< what was found of them
  std::vector<int64_t> latents;     ///< channels, frames, height, width
  ModelCost cost;
};

ModelFacts facts_of(const RunOptions& options) {
  runtime::GenerateOptions run = options.to_runtime();
  run.seed = 0;  // no random one: a plan is the same each time
  ModelFacts facts;
  facts.model = take(runtime::ModelFolder::open(run.model, run.choice));
  const auto weights = take(runtime::RunWeights::open(run, facts.model, facts.weights));
  const auto trained = take(runtime::trained_with(weights->transformer_file.metadata()));
  facts.plan = take(runtime::plan_run(run, facts.model, trained));
  facts.latents = runtime::latent_shape(facts.plan, facts.model.transformer);
  facts.cost = cost_of(facts.model, facts.plan,
                       {.text_encoder = &weights->text_file,
                        .transformer = &weights->transformer_file,
                        .vae = weights->vae_file ? &*weights->vae_file : nullptr},
                       facts.weights.transformer.has_gates);
  return facts;
}

nlohmann::ordered_json to_json(const StageCost& stage) {
  return {{"flops", stage.flops}, {"memory_bytes", stage.memory_bytes}};
}

nlohmann::ordered_json to_json(const ModelFacts& f) {
  const runtime::RunPlan& plan = f.plan;
  nlohmann::ordered_json stages = {{"text_encoder", to_json(f.cost.text)},
                                   {"transformer", to_json(f.cost.transformer)}};
  stages["transformer"]["flops_per_pass"] = f.cost.sparse_pass_flops;
  stages["transformer"]["flops_per_dense_pass"] = f.cost.dense_pass_flops;
  if (f.model.vae) {
    stages["vae"] = to_json(f.cost.vae);
    stages["vae"]["stripes"] = f.cost.vae_stripes;
  }
  return {{"model", f.model.root.string()},
          {"parameters", f.weights.transformer.parameters},
          {"dtype", f.weights.transformer.dtype},
          {"has_gates", f.weights.transformer.has_gates},
          {"frames", plan.frames},
          {"width_px", plan.size.width},
          {"height_px", plan.size.height},
          {"latents", f.latents},
          {"grid_tokens", {plan.grid.f, plan.grid.h, plan.grid.w}},
          {"num_tokens", plan.grid.num_tokens()},
          {"num_tiles", plan.num_tiles},
          {"topk", plan.topk},
          {"steps", plan.steps},
          {"passes", plan.passes()},
          {"scheduler", sampler::name(plan.scheduler.kind)},
          {"shift", plan.scheduler.shift},
          {"stages", stages},
          {"peak_memory_bytes", f.cost.peak_bytes()},
          {"available_memory_bytes", system::available_memory_bytes()}};
}

std::string to_text(const ModelFacts& f) {
  const runtime::RunPlan& plan = f.plan;
  const dit::WanConfig& config = f.model.transformer;
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<14}{}\n", what, value);
  };
  line("transformer",
       fmt::format("{} layers, {} heads of {}, {:.2f} billion parameters in {}, {} gates",
                   config.num_layers, config.num_heads, config.head_dim,
                   static_cast<double>(f.weights.transformer.parameters) / 1e9,
                   f.weights.transformer.dtype,
                   f.weights.transformer.has_gates ? "with" : "without"));
  line("video", fmt::format("{} frames of {}x{} (width x height)", plan.frames, plan.size.width,
                            plan.size.height));
  line("latents", fmt::format("{} channels, {} frames of {}x{}", f.latents[0], f.latents[1],
                              f.latents[3], f.latents[2]));
  line("tokens", fmt::format("{} x {} x {} = {}", plan.grid.f, plan.grid.h, plan.grid.w,
                             plan.grid.num_tokens()));
  line("tiles",
       fmt::format("{}, of which a query tile keeps {} ({:.2f} %)", plan.num_tiles, plan.topk,
                   100.0 * static_cast<double>(plan.topk) / static_cast<double>(plan.num_tiles)));
  line("steps",
       fmt::format("{} of {}, shift {}, {} a step", plan.steps, sampler::name(plan.scheduler.kind),
                   plan.scheduler.shift, plan.passes() == 1 ? "one pass" : "two passes"));
  line("a pass", fmt::format("{}; dense {}", format_flops(f.cost.sparse_pass_flops),
                             format_flops(f.cost.dense_pass_flops)));
  Table stages({"stage", "FLOPs", "memory"});
  const auto stage = [&](const char* name, const StageCost& cost) {
    stages.add(
        {name, format_flops(cost.flops), format_bytes(static_cast<double>(cost.memory_bytes))});
  };
  stage("text encoder", f.cost.text);
  stage("transformer", f.cost.transformer);
  if (f.model.vae) stage("VAE", f.cost.vae);
  text += "\n" + stages.to_string() + "\n";
  line("peak", format_bytes(static_cast<double>(f.cost.peak_bytes())) +
                   ", as one stage follows "
                   "the other");
  line("available", format_bytes(static_cast<double>(system::available_memory_bytes())));
  return text;
}

}  // namespace

void plan_model(const RunOptions& options, bool json) {
  const ModelFacts facts = facts_of(options);
  for (const std::string& warning : facts.plan.warnings) warn(plain(warning));
  json ? print_json(to_json(facts)) : print_result(to_text(facts));
}

}  // namespace vsa::cli
