// The two ways checkpoints name a umT5 encoder's tensors. Host-only.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace vsa::text {

/// What stands before every name of the encoder in a file that holds more than it: ComfyUI's two,
/// and that of a pipeline of diffusers.
inline constexpr std::array<std::string_view, 3> kPartPrefixes{
    "text_encoders.umt5xxl.transformer.", "umt5xxl.transformer.", "text_encoder."};

/// The name that transformers gives a tensor, from that name or from the one in Wan's own file
/// (models_t5_umt5-xxl-enc-bf16): no name means two things, so that nothing needs to be detected. A
/// name that fits no rule comes back as it is. A prefix is dropped.
std::string transformers_name(std::string_view file_name);

}  // namespace vsa::text
