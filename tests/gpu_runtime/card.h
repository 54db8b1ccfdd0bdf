// What the runtime's tests on a card need of the machine. Host-only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "vsa/vendor_library.h"

namespace vsa::test {

/// Why tests that need the cuda backend and these of its libraries cannot run here; empty if they
/// can.
inline std::string missing(std::initializer_list<std::string_view> libraries) {
  const BackendInfo cuda = backends()[static_cast<size_t>(BackendId::kCuda)];
  if (!cuda.available) return cuda.detail;
  const auto known = vendor_libraries(BackendId::kCuda);
  for (const std::string_view wanted : libraries) {
    const auto found = std::ranges::find(known, wanted, &VendorLibraryInfo::name);
    if (found == known.end())
      throw std::logic_error(std::string(wanted) + " is no library of cuda");
    if (!found->available) return found->detail;
  }
  return "";
}

}  // namespace vsa::test

/// Skips the test where the card or a library is missing, and says which.
#define VSA_NEEDS_CARD(...)                         \
  if (!::vsa::test::missing({__VA_ARGS__}).empty()) \
  GTEST_SKIP() << ::vsa::test::missing({__VA_ARGS__})
