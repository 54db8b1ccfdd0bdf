// The only list of backends: those compiled in, and for the others why they are not. Host-only.
#include "src/api/registry.h"
#include "src/cuda/traits.h"

// Why CMake left the CUDA backend out (cmake/cuda.cmake).
#ifndef VSA_CUDA_ABSENCE
#define VSA_CUDA_ABSENCE "no reason known"
#endif

namespace vsa {

const BackendTable* find_backend(BackendId id) {
  switch (id) {
    case BackendId::kReference:
      return &reference_backend();
    case BackendId::kCpu:
      return &cpu_backend();
#ifdef VSA_HAS_CUDA
    case BackendId::kCuda:
      return &cuda_backend();
#endif
    default:
      return nullptr;
  }
}

const BackendTraits* find_traits(BackendId id) {
  if (id == BackendId::kCuda) return &cuda::kTraits;  // whether or not it is compiled in
  const BackendTable* table = find_backend(id);
  return table != nullptr ? &table->traits : nullptr;
}

std::span<const std::string_view> find_library_names(BackendId id) {
  if (id == BackendId::kCuda) return cuda::kLibraryNames;  // likewise
  return {};
}

std::string absence(BackendId id) {
  switch (id) {
    case BackendId::kCuda:
      return "not compiled in: " VSA_CUDA_ABSENCE;
    case BackendId::kHip:
      return "not compiled in: this version of vsa has no HIP backend yet";
    default:
      return "not compiled in";
  }
}

}  // namespace vsa
