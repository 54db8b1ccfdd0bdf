// Where the parts of a model are: in its folder, or where the command says. Host-only.
#pragma once

#include <filesystem>
#include <string>

#include "vsa/status.h"

namespace vsa::runtime {

/// Parts that are elsewhere than in the model's folder: another model's folder, the folder of the
/// part, or a file of weights. Empty: in the model's folder.
struct PartPaths {
  std::filesystem::path transformer, vae, text_encoder;
};

/// One part.
struct PartLocation {
  std::filesystem::path weights;  ///< of io::Checkpoint::open
  std::filesystem::path config;   ///< its config.json; empty: read off the shapes of the weights
};

/// The folders of a model, by diffusers' names.
enum class Part { kTransformer, kVae, kTextEncoder };
/// "transformer", "vae", "text_encoder".
const char* name(Part part);

/// Whether a folder is one of Wan's own repositories: config.json and weights beside each other,
/// and no model_index.json.
bool is_wan_repository(const std::filesystem::path& root);

/// @param root       the model's folder
/// @param elsewhere  of PartPaths
/// @return IoError (no such path) | Unsupported (weights of another kind, which the message says
/// how
///         to convert)
Result<PartLocation> locate_part(Part part, const std::filesystem::path& root,
                                 const std::filesystem::path& elsewhere);

/// spiece.model of a folder, where either layout has it.
std::filesystem::path locate_tokenizer(const std::filesystem::path& root);

}  // namespace vsa::runtime
