// From noise to latents: the transformer under the sampler. Host-only.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "runtime/dit/transformer.h"
#include "runtime/report.h"
#include "runtime/run_plan.h"

namespace vsa::runtime {

/// A run's sampling.
struct DenoiseArgs {
  const RunPlan* plan = nullptr;
  dit::Model* model = nullptr;
  double timestep_scale = 1000.0;  ///< the timestep of sigma 1
  const dit::TextContext* prompt = nullptr;
  const dit::TextContext* negative = nullptr;  ///< not read if guidance is 1
  const std::atomic<bool>* cancel = nullptr;   ///< may be null
  std::function<void(int64_t step)> on_layer;  ///< after every layer of every pass
};

/// Elements of the latents of a run.
int64_t latent_size(const RunPlan& plan, const dit::WanConfig& config);

/// Fills x with the noise of plan.seed and runs the sampler. On failure x is as the last whole step
/// left it.
/// @param x           [in_channels, frames, height, width]
/// @param step_reports  one is added per step begun; of a step that failed, what ran of it
/// @param steps_done    whole steps
/// @return Cancelled | Internal (names step and layer) | errors of attention_forward
Status denoise(const DenoiseArgs& args, std::span<float> x, std::vector<StepReport>& step_reports,
               int64_t& steps_done);

}  // namespace vsa::runtime
