// Chooses the weights of a folder. Host-only.
#pragma once

#include <filesystem>
#include <string>

#include "vsa/status.h"

namespace vsa::io {

/// The safetensors file, or the index of several, that a folder of weights is read from.
///
/// Files count by their names, as diffusers and transformers write them:
///   NAME.safetensors, NAME.safetensors.index.json, shards NAME-00001-of-00002.safetensors, and
///   with a variant NAME.VARIANT.safetensors, NAME.safetensors.index.VARIANT.json
/// Hidden files (those of macOS begin with "._"), folders and shards are passed over. Of what is
/// left, NAME diffusion_pytorch_model or model goes before all others, and an index before a file.
/// @param variant  empty: the weights without a variant, or the only ones there are
/// @return IoError naming what was found if nothing fits or more than one file does
Result<std::filesystem::path> choose_weights(const std::filesystem::path& folder,
                                             const std::string& variant);

/// Whether a folder has weights of that variant.
bool has_variant(const std::filesystem::path& folder, const std::string& variant);

}  // namespace vsa::io
