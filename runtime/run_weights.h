// The weights of all parts of a run, found by name before anything is computed. Host-only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/dit/weights.h"
#include "runtime/io/checkpoint.h"
#include "runtime/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/report.h"
#include "runtime/text/umt5_weights.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// Tensors of mapped files; nothing but headers is read. Must outlive what is made of them.
struct RunWeights {
  io::Checkpoint text_file, transformer_file;
  std::optional<io::Checkpoint> vae_file;  ///< of a model with a VAE
  text::Umt5Weights text;
  dit::WanWeights transformer;

  std::vector<const io::Checkpoint*> files() const;

  /// Opens all files, and finds every tensor of every part.
  /// @param report  gets what was found
  /// @return errors of ModelFolder, find_umt5_weights, dit::find_weights and vae::find_weights
  static Result<std::unique_ptr<RunWeights>> open(const GenerateOptions& options,
                                                  const ModelFolder& model, GenerateReport& report);
};

/// Adds a warning if the model has no gates, if dense attention is combined with gates, or if the
/// transformer has tensors that nothing reads.
void warn_of_weights(const GenerateOptions& options, GenerateReport& report);

/// Why a stage computed a NaN or an infinity: the name of a weight that is one, or else the failure
/// itself.
/// @param failure  of a stage; other codes than Internal come back as they are
Status explain(const Status& failure, const io::Checkpoint& weights, std::string_view model);

}  // namespace vsa::runtime
