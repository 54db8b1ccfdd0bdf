// What a run of a model costs, stage by stage: FLOPs and memory, counted before anything is loaded.
// Host-only.
#pragma once

#include <cstdint>

#include "runtime/io/checkpoint.h"
#include "runtime/model_folder.h"
#include "runtime/run_plan.h"

namespace vsa::cli {

/// One stage.
struct StageCost {
  double flops = 0.0;        ///< of products, convolutions and attention
  int64_t memory_bytes = 0;  ///< while the stage runs; stages follow each other
};

/// A run.
struct ModelCost {
  StageCost text, transformer, vae;
  double dense_pass_flops = 0.0;   ///< one pass of the transformer with all layers dense
  double sparse_pass_flops = 0.0;  ///< with none of them; the same if the run keeps all tiles
  int64_t vae_stripes = 1;         ///< that the frames are cut into, so that they fit

  int64_t peak_bytes() const;
};

/// The weights of all parts; vae is null for a model that denoises pixels.
struct ModelWeights {
  const io::Checkpoint* text_encoder = nullptr;
  const io::Checkpoint* transformer = nullptr;
  const io::Checkpoint* vae = nullptr;
};

/// @param plan  of the model; prompts are taken to fill all rows of the text
ModelCost cost_of(const runtime::ModelFolder& model, const runtime::RunPlan& plan,
                  const ModelWeights& weights, bool has_gates);

}  // namespace vsa::cli
