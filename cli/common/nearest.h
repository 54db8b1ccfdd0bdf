// What somebody who mistyped a word probably meant. Host-only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace vsa::cli {

/// The one of `words` that begins with `typed`, or else the one nearest to it, if at most a third
/// of its letters were left out, added, replaced or swapped with the next one.
std::optional<std::string> nearest(const std::string& typed, const std::vector<std::string>& words);

}  // namespace vsa::cli
