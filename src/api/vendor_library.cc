// Libraries of the vendors: what the backends' tables say of them. Host-only.
#include "vsa/vendor_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/api/registry.h"
#include "src/core/shared_library.h"

namespace vsa {
namespace {

Result<const SharedLibrary*> find_library(BackendId id, std::string_view name) {
  VSA_TRY(backend_traits(id).status());
  const std::span<const std::string_view> known = find_library_names(id);
  if (std::ranges::find(known, name) == known.end()) {
    return invalid_argument(
        fmt::format("[vendor_library] library: expected {}, got {}",
                    known.empty() ? fmt::format("none, as the {} backend has none", vsa::name(id))
                                  : fmt::format("one of {}", fmt::join(known, ", ")),
                    name));
  }
  const BackendTable* table = find_backend(id);
  if (table == nullptr) {
    return unsupported(fmt::format("[vendor_library] {}: expected the {} backend, which is {}",
                                   name, vsa::name(id), absence(id)));
  }
  return table->library(name);
}

}  // namespace

std::vector<VendorLibraryInfo> vendor_libraries(BackendId id) {
  std::vector<VendorLibraryInfo> all;
  for (const std::string_view name : find_library_names(id)) {
    const Result<const SharedLibrary*> library = find_library(id, name);
    std::string detail;
    if (library.ok()) {
      detail = fmt::format("{}, {}", text_of((*library)->version()), (*library)->path());
    } else {
      // `name` has the library already, so the detail leaves out the beginning of the message.
      const std::string begin = fmt::format("[vendor_library] {}: ", name);
      detail = library.status().message();
      if (detail.starts_with(begin)) detail.erase(0, begin.size());
    }
    all.push_back({.name = name, .available = library.ok(), .detail = detail});
  }
  return all;
}

Result<void*> vendor_symbol(BackendId id, std::string_view library, const char* name) {
  const Result<const SharedLibrary*> found = find_library(id, library);
  VSA_TRY(found.status());
  return (*found)->symbol(name);
}

}  // namespace vsa
