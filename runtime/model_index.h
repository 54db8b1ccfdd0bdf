// model_index.json: what a model folder is made of, and what it suggests. Host-only.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa::runtime {

/// What a model suggests ("vsa" in model_index.json, or what its kind is known to be run with);
/// empty where nothing is known.
struct ModelDefaults {
  std::optional<int64_t> steps{}, frames{}, height{}, width{};
  std::optional<double> guidance{}, sparsity{};
  std::optional<TileShape> tile{};
};

/// What a model was trained on ("vsa" in model_index.json); empty where it says nothing. Other
/// prompts and videos can be generated, but the model has not learned them.
struct TrainedOn {
  std::set<std::string> words;  ///< lower case; every word of its captions
  /// Of each kind of video: frames, height and width in pixels.
  std::vector<std::vector<int64_t>> videos;
};

/// The index, checked.
struct ModelIndex {
  bool has_vae = false;    ///< false: the transformer denoises pixels
  bool few_steps = false;  ///< distilled to a few steps: FastVideo's WanDMDPipeline
  std::string scheduler;   ///< the class
  ModelDefaults defaults;
  TrainedOn trained_on;
  int64_t max_sequence_length = 512;  ///< rows of the text embedding, in tokens
  double fps = 16.0;
  std::vector<std::string> ignored;  ///< "file: field", fields that the runtime does not use
};

inline constexpr const char* kModelIndex = "model_index.json";

/// @return IoError (a field of a wrong type) | Unsupported naming what else the model is: image to
///         video, Wan2.2, or other classes of transformer, text encoder, VAE or scheduler
Result<ModelIndex> parse_model_index(const nlohmann::json& index);

/// The settings of a Wan2.1 model whose folder names none: 81 frames of 832x480 pixels in 50 steps
/// at guidance 5; with few_steps, for models that were distilled to three steps, 61 frames of
/// 832x448 pixels without guidance.
ModelDefaults wan_defaults(bool few_steps);

}  // namespace vsa::runtime
