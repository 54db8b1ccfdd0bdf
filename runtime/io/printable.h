// Names out of untrusted files, made safe to print. Host-only.
#pragma once

#include <string>
#include <string_view>

namespace vsa::io {

/// `text` as a JSON string in ASCII, cut after 80 bytes: it fits on one line of an error message.
std::string printable(std::string_view text);

}  // namespace vsa::io
