// Finds the table of a backend. Host-only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/core/backend_table.h"

namespace vsa {

/// The backend's table; null if it is not compiled in or id is outside the enum.
const BackendTable* find_backend(BackendId id);
/// What it takes; null if it does not exist yet or id is outside the enum.
const BackendTraits* find_traits(BackendId id);
/// Libraries of the vendor that it loads where they are there, compiled in or not.
std::span<const std::string_view> find_library_names(BackendId id);
/// Why a backend is not part of this build.
std::string absence(BackendId id);

/// The backend's table, if it can run here. @return InvalidArgument (id outside the enum) |
/// Unsupported (not compiled in, or not for this machine), with the reason.
Result<const BackendTable*> usable_backend(std::string_view operation, BackendId id);

}  // namespace vsa
