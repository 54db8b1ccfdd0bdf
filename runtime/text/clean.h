// Brings a prompt into the form the tokenizer was trained on. Host-only.
#pragma once

#include <string>
#include <string_view>

#include "vsa/status.h"

namespace vsa::text {

/// Does what Wan's Python pipelines do to a prompt (ftfy, html.unescape, white space), as the
/// models were trained on such text: HTML character references become characters (unescape_html),
/// curly quotation marks straight ones, control characters and byte order marks vanish, every run
/// of white space (Unicode White_Space) becomes one space, and both ends are stripped. Text that
/// was decoded with a wrong encoding is not repaired. Unicode normalisation is the tokenizer's.
/// @return InvalidArgument naming the byte where `prompt` stops being UTF-8
Result<std::string> clean_prompt(std::string_view prompt);

}  // namespace vsa::text
