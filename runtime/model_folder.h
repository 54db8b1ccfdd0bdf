// A model on disk, in diffusers' folder layout: what its JSON files say. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/dit/config.h"
#include "runtime/io/checkpoint.h"
#include "runtime/sampler/scheduler_config.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/umt5_config.h"
#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa::runtime {

/// What a model suggests ("vsa" in model_index.json); empty where it says nothing.
struct ModelDefaults {
  std::optional<int64_t> steps, frames, height, width;
  std::optional<double> guidance, sparsity;
  std::optional<TileShape> tile;
};

/// What a model was trained on ("vsa" in model_index.json); empty where it says nothing. Other
/// prompts and videos can be generated, but the model has not learned them.
struct TrainedOn {
  std::set<std::string> words;  ///< lower case; every word of its captions
  std::vector<int64_t> video;   ///< frames, height and width in pixels
};

/// The configuration of a whole model, checked; no weights are read.
struct ModelFolder {
  std::filesystem::path root;
  dit::WanConfig transformer;
  text::Umt5Config text_encoder;
  ModelDefaults defaults;
  int64_t max_sequence_length = 512;  ///< rows of the text embedding, in tokens
  double fps = 16.0;
  sampler::SchedulerConfig scheduler;
  std::vector<std::string> ignored;  ///< "file: field", fields that mean nothing here
  /// Of the weights of each part; empty for those without.
  std::string text_encoder_variant, transformer_variant;
  TrainedOn trained_on;
  std::vector<std::string> warnings;  ///< what a user of the model should know

  std::filesystem::path tokenizer() const { return root / "tokenizer" / "spiece.model"; }
  std::filesystem::path text_encoder_weights() const { return root / "text_encoder"; }
  std::filesystem::path transformer_weights() const { return root / "transformer"; }
  /// The JSON files that were read, relative to root.
  static std::vector<std::filesystem::path> config_files();

  /// @param variant  which weights to take where a part has several ("fp16", "ema"); a part without
  ///                 that variant keeps its plain ones, which is a warning
  /// @return IoError (a file or field is missing or wrong; no part has the variant) |
  ///         Unsupported (a VAE, or another scheduler, transformer or text encoder; the message
  ///         names what it found)
  static Result<ModelFolder> open(const std::filesystem::path& root,
                                  const std::string& variant = "");

  /// @return IoError as io::Checkpoint::open
  Result<io::Checkpoint> open_text_encoder() const;
  Result<io::Checkpoint> open_transformer() const;
  /// The tokenizer, whose vocabulary the text encoder must have room for.
  /// @return IoError as text::Tokenizer::load, or if the vocabulary is too large
  Result<text::Tokenizer> open_tokenizer() const;
};

}  // namespace vsa::runtime
