// How much room a text takes on a terminal. Host-only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vsa::cli {

/// Columns of UTF-8 text on a terminal: 2 for wide characters (East Asian, emoji), 0 for combining
/// ones. A byte that is not UTF-8 takes one.
int64_t text_columns(std::string_view text);

/// The text if it fits into so many columns, or else its start and "...". Control characters become
/// '?': a name from a file must not move the cursor.
std::string fit_columns(std::string_view text, int64_t columns);

}  // namespace vsa::cli
