// NVIDIA's libraries that are loaded at run time. Host-only.
#pragma once

#include <string_view>

#include "src/core/shared_library.h"

namespace vsa::cuda {

/// One of kLibraryNames, loaded by the first call that asks for it.
/// @return Unsupported, with the reason, again in every later call
Result<const SharedLibrary*> library(std::string_view name);

/// Where they are looked for (docs/reference/environment.md).
/// @param named  the variable VSA_CUDA_LIBRARIES: folders with colons between; null: not set
/// @param cuda_home  the variable CUDA_HOME; null: not set
SharedLibrary::Places library_places(const char* named, const char* cuda_home);

}  // namespace vsa::cuda
