// A model on disk, in diffusers' folder layout: what its JSON files say. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/dit/config.h"
#include "runtime/text/umt5.h"
#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa::runtime {

/// What a model suggests ("vsa" in model_index.json); empty where it says nothing.
struct ModelDefaults {
  std::optional<int64_t> steps, frames, height, width;
  std::optional<double> guidance, sparsity;
  std::optional<TileShape> tile;
};

/// The configuration of a whole model, checked; no weights are read.
struct ModelFolder {
  std::filesystem::path root;
  dit::WanConfig transformer;
  text::Umt5Config text_encoder;
  ModelDefaults defaults;
  int64_t max_sequence_length = 512;  ///< rows of the text embedding, in tokens
  double fps = 16.0;
  double shift = 1.0;
  int64_t num_train_timesteps = 1000;  ///< the timestep of sigma 1
  std::vector<std::string> ignored;    ///< "file: field", fields that mean nothing here

  std::filesystem::path tokenizer() const { return root / "tokenizer" / "spiece.model"; }
  std::filesystem::path text_encoder_weights() const { return root / "text_encoder"; }
  std::filesystem::path transformer_weights() const { return root / "transformer"; }
  /// The JSON files that were read, relative to root.
  static std::vector<std::filesystem::path> config_files();

  /// @return IoError (a file or field is missing or wrong) | Unsupported (a VAE, another scheduler,
  ///         transformer or text encoder; the message names what it found)
  static Result<ModelFolder> open(const std::filesystem::path& root);
};

}  // namespace vsa::runtime
