// The three ways checkpoints name a Wan transformer's tensors. Host-only.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa::dit {

/// Whose names a checkpoint uses. The same name means different tensors: the affine norm before
/// cross-attention is `norm3` in Wan's own files, where `norm2` has no weights, and `norm2` in
/// diffusers'.
enum class Naming { kDiffusers, kOriginal, kFastVideo };

/// What stands before every name of a transformer in a file that holds more than it: ComfyUI's two,
/// and that of a pipeline of diffusers.
inline constexpr std::array<std::string_view, 3> kPartPrefixes{"model.diffusion_model.",
                                                               "diffusion_model.", "transformer."};

/// "diffusers", "wan", "fastvideo".
std::string_view name(Naming naming);

/// Finds out by names that only one of the three has.
/// @return IoError if the names are of none of them, or of several
Result<Naming> detect_naming(const std::vector<std::string>& names);

/// The name in Wan's own files of a tensor or module under diffusers' name.
std::string original_name(std::string_view diffusers_name);

/// The diffusers name of a tensor, with `blocks.N.to_gate_compress` for the gate wherever the file
/// has it. A name that fits no rule comes back as it is. A prefix is dropped.
std::string diffusers_name(std::string_view file_name, Naming naming);

}  // namespace vsa::dit
