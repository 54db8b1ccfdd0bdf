// What somebody who mistyped a word probably meant. Host-only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace vsa::cli {

/// The one of `words` that begins with `typed`, or else the nearest to it that is near enough to
/// be meant: at most a third of its letters are missing, more, others or swapped with the next.
std::optional<std::string> nearest(const std::string& typed, const std::vector<std::string>& words);

}  // namespace vsa::cli
