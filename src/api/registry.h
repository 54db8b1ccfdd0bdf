// Finds the table of a backend. Host-only.
#pragma once

#include "src/core/backend_table.h"

namespace vsa {

/// The backend's table; null if it is not compiled in or id is outside the enum.
const BackendTable* find_backend(BackendId id);

}  // namespace vsa
