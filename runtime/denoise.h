// From noise to latents: the transformer under the sampler. Host-only.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "runtime/dit/transformer.h"
#include "runtime/report.h"
#include "runtime/run_plan.h"
#include "runtime/sampler/sampler.h"

namespace vsa::runtime {

/// A run's sampling.
struct DenoiseArgs {
  const RunPlan* plan = nullptr;
  dit::Model* model = nullptr;
  sampler::Sampler* sampler = nullptr;  ///< of plan->schedule; new, or resumed
  const dit::TextContext* prompt = nullptr;
  const dit::TextContext* negative = nullptr;  ///< not read if guidance is 1
  const std::atomic<bool>* cancel = nullptr;   ///< may be null
  std::function<void(int64_t step)> on_layer;  ///< after every layer of every pass
  /// After the prediction of every step and before x moves, with v = noise - x0 as the model
  /// predicts it; may be empty. A failure ends the run.
  std::function<Status(int64_t step, std::span<const float> x, std::span<const float> v)>
      on_prediction;
};

/// Elements of the latents of a run.
int64_t latent_size(const RunPlan& plan, const dit::WanConfig& config);

/// Fills x with the noise of plan.seed, unless the sampler was resumed, and runs the sampler to its
/// end. On failure x and the sampler are as the last whole step left them.
/// @param x           [in_channels, frames, height, width]; of a resumed run, what it had reached
/// @param step_reports  one is added per step begun; of a step that failed, what ran of it
/// @return Cancelled | Internal (names step and layer) | errors of attention_forward
Status denoise(const DenoiseArgs& args, std::span<float> x, std::vector<StepReport>& step_reports);

}  // namespace vsa::runtime
