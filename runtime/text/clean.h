// Brings a prompt into the form the tokenizer was trained on. Host-only.
#pragma once

#include <string>
#include <string_view>

#include "vsa/status.h"

namespace vsa::text {

/// Collapses every run of white space (Unicode White_Space) to one space and strips both ends.
/// HTML entities and text of a wrong encoding are not repaired, as Wan's Python pipelines try to;
/// for UTF-8 without entities the result is the same.
/// @return InvalidArgument naming the byte where `prompt` stops being UTF-8
Result<std::string> clean_prompt(std::string_view prompt);

}  // namespace vsa::text
