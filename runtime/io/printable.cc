// Names out of untrusted files, made safe to print.
#include "runtime/io/printable.h"

#include <nlohmann/json.hpp>

namespace vsa::io {

std::string printable(std::string_view text) {
  constexpr size_t kShown = 80;
  const bool is_long = text.size() > kShown;
  const std::string shown =
      nlohmann::json(std::string(text.substr(0, kShown)))
          .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  return is_long ? shown + "..." : shown;
}

}  // namespace vsa::io
