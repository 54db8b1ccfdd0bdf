// A model on disk: where its parts are, and what its JSON files or the shapes of its tensors say.
// Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/dit/config.h"
#include "runtime/io/checkpoint.h"
#include "runtime/model_index.h"
#include "runtime/model_parts.h"
#include "runtime/sampler/scheduler_config.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/umt5_config.h"
#include "runtime/vae/config.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// Which of several weights a part takes, and which parts are elsewhere.
struct ModelChoice {
  std::string variant;  ///< "fp16", "ema"; a part without it keeps its plain weights: a warning
  PartPaths parts{};
  /// For decoding: the transformer and the text encoder are not looked for, and stay empty.
  bool vae_alone = false;
};

/// The configuration of a whole model, checked; no weights are read.
struct ModelFolder {
  std::filesystem::path root;
  bool few_steps = false;  ///< distilled to a few steps
  dit::WanConfig transformer;
  text::Umt5Config text_encoder;
  std::optional<vae::VaeConfig> vae;  ///< none: the transformer denoises pixels
  ModelDefaults defaults;
  int64_t max_sequence_length = 512;  ///< rows of the text embedding, in tokens
  double fps = 16.0;
  sampler::SchedulerConfig scheduler;
  std::vector<std::string> ignored;  ///< "file: field", fields that the runtime does not use
  PartLocation transformer_at, text_encoder_at, vae_at;
  std::filesystem::path tokenizer_at;  ///< spiece.model
  /// Of the weights of each part; empty for those without.
  std::string text_encoder_variant, transformer_variant, vae_variant;
  TrainedOn trained_on;
  std::vector<std::string> warnings;                ///< what a user of the model should know
  std::vector<std::filesystem::path> config_files;  ///< the JSON files that were read

  /// Reads a folder in diffusers' layout, or one of Wan's own repositories.
  /// @return IoError (a file or field is missing or wrong, parts do not fit each other, no part has
  ///         the variant) | Unsupported (another kind of model, scheduler or weights; the message
  ///         names what it found)
  static Result<ModelFolder> open(const std::filesystem::path& root,
                                  const ModelChoice& choice = {});

  /// @return IoError as io::Checkpoint::open | Unsupported as dit::refuse_other_models
  Result<io::Checkpoint> open_text_encoder() const;
  Result<io::Checkpoint> open_transformer() const;
  /// Only for a model with a VAE.
  Result<io::Checkpoint> open_vae() const;
  /// The tokenizer, whose vocabulary the text encoder must have room for.
  /// @return IoError as text::Tokenizer::load, or if the vocabulary is too large
  Result<text::Tokenizer> open_tokenizer() const;
};

}  // namespace vsa::runtime
