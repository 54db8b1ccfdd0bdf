// The two ways checkpoints name a umT5 encoder's tensors. Host-only.
#pragma once

#include <string>
#include <string_view>

namespace vsa::text {

/// The name that transformers gives a tensor, from that name or from the one in Wan's own file
/// (models_t5_umt5-xxl-enc-bf16): no name means two things, so that nothing needs to be detected. A
/// name that fits no rule comes back as it is. Prefixes of a whole pipeline in one file are
/// dropped.
std::string transformers_name(std::string_view file_name);

}  // namespace vsa::text
