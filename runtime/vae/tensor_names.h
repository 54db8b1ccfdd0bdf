// The two ways checkpoints name the tensors of Wan2.1's VAE. Host-only.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa::vae {

enum class Naming { kDiffusers, kOriginal };

/// What stands before every name of the VAE in a file that holds more than it: ComfyUI's, and that
/// of older single files.
inline constexpr std::array<std::string_view, 2> kPartPrefixes{"vae.", "first_stage_model."};

/// "diffusers" or "wan".
std::string_view name(Naming naming);

/// Looks at the names of a checkpoint's tensors, with a prefix or without.
/// @return IoError: names of another model's VAE, which the message calls by name where it is known
Result<Naming> detect_naming(const std::vector<std::string>& names);

/// The name diffusers gives a tensor. Names that no rule knows stay.
/// @param num_res_blocks  of the configuration: Wan numbers all blocks of the decoder in one list
std::string diffusers_name(std::string_view file_name, Naming naming, int64_t num_res_blocks);

}  // namespace vsa::vae
