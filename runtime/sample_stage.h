// The second stage of a run: from noise to latents, and the file that keeps them. Host-only.
#pragma once

#include "runtime/dit/steps.h"
#include "runtime/file_hashes.h"
#include "runtime/latents.h"
#include "runtime/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/preview.h"
#include "runtime/report.h"
#include "runtime/run_plan.h"
#include "runtime/run_weights.h"
#include "runtime/text_stage.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// What the stage works with.
struct SampleArgs {
  const GenerateOptions* options = nullptr;
  const ModelFolder* model = nullptr;
  const RunPlan* plan = nullptr;
  const RunWeights* weights = nullptr;
  const Texts* texts = nullptr;
  const Latents* begun = nullptr;          ///< of a run that is resumed, or null
  const LatentColours* colours = nullptr;  ///< of previews, or null
  FileHashes* hashes = nullptr;            ///< of the run's files
};

/// Loads the transformer, samples, and saves the latents whatever the outcome. The transformer
/// lives no longer than the call.
/// @return the latents | errors of denoise and save_latents
Result<Latents> sample(const SampleArgs& args, GenerateReport& report);

}  // namespace vsa::runtime
