// Options and model defaults, resolved and checked: everything a run needs to know. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/safetensors.h"
#include "runtime/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/sampler/schedule.h"

namespace vsa::runtime {

/// A run, decided in full before any weight is loaded.
struct RunPlan {
  int64_t seed = 0;
  int64_t steps = 0;
  int64_t frames = 0;
  FrameSize size;
  double guidance = 1.0;
  std::string negative_prompt;  ///< empty if there is no guidance
  double fps = 0.0;
  Grid grid;  ///< in tokens
  Tiling tiling;
  int64_t num_tiles = 0;
  int64_t topk = 0;  ///< of the layers that run vsa; num_tiles if none does
  sampler::SchedulerConfig scheduler;
  sampler::Schedule schedule;  ///< of it
  std::vector<std::string> warnings;
  std::string backend_detail;
  /// The transformer is in the memory of the backend's device; the text encoder and the VAE are on
  /// the CPU.
  bool on_device = false;

  int64_t passes() const { return guidance == 1.0 ? 1 : 2; }
  bool is_dense(int64_t step, int64_t layer) const;

  // What is_dense decides from.
  bool all_dense = false;
  int64_t dense_steps = 0;
  std::vector<bool> dense_layer;  ///< [num_layers]
};

/// What a transformer checkpoint's metadata says it was trained with.
struct TrainedWith {
  std::optional<TileShape> tile;   ///< "vsa.tile": "4,4,4"
  std::optional<double> sparsity;  ///< "vsa.sparsity": "0.75"
};
/// @return IoError if a value is there but cannot be read
Result<TrainedWith> trained_with(const io::Metadata& metadata);

/// Whether `generate` would refuse these options, judged by the model's configuration and the
/// metadata of its weights. A batch checks all its runs by this before the first one begins.
/// @return as plan_run; IoError if the model cannot be opened
Status check_run(const GenerateOptions& options);

/// @return InvalidArgument naming the option, with the nearest valid value | Unsupported (backend)
Result<RunPlan> plan_run(const GenerateOptions& options, const ModelFolder& model,
                         const TrainedWith& trained);

}  // namespace vsa::runtime
