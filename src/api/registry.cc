// The only list of backends: those compiled in, and for the others why they are not. Host-only.
#include "src/api/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

// Why CMake left the CUDA backend out (cmake/cuda.cmake).
#ifndef VSA_CUDA_ABSENCE
#define VSA_CUDA_ABSENCE "no reason known"
#endif

namespace vsa {
namespace {

constexpr std::array kBackends{BackendId::kReference, BackendId::kCpu, BackendId::kCuda,
                               BackendId::kHip};

/// Why a backend is not part of this build.
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

}  // namespace

const BackendTable* find_backend(BackendId id) {
  switch (id) {
    case BackendId::kReference:
      return &reference_backend();
    case BackendId::kCpu:
      return &cpu_backend();
    case BackendId::kCuda:
#ifdef VSA_HAS_CUDA
      return &cuda_backend();
#else
      return nullptr;
#endif
    case BackendId::kHip:
      return nullptr;
  }
  return nullptr;
}

Result<const BackendTable*> usable_backend(std::string_view operation, BackendId id) {
  if (std::ranges::find(kBackends, id) == kBackends.end()) {
    return invalid_argument(
        fmt::format("[{}] backend: expected reference, cpu, cuda or hip, got {}", operation,
                    static_cast<int>(id)));
  }
  const BackendTable* table = find_backend(id);
  const BackendInfo info = table != nullptr ? table->info() : BackendInfo{.detail = absence(id)};
  if (info.available) return table;
  return unsupported(fmt::format("[{}] backend: expected one that can run here, got {}; {}",
                                 operation, name(id), info.detail));
}

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> all;
  for (const BackendId id : kBackends) {
    const BackendTable* table = find_backend(id);
    all.push_back(table != nullptr ? table->info() : BackendInfo{.id = id, .detail = absence(id)});
  }
  return all;
}

Result<BackendId> backend_from_name(std::string_view wanted) {
  for (const BackendId id : kBackends) {
    if (wanted == name(id)) return id;
  }
  return invalid_argument(
      fmt::format("[backend] name: expected reference, cpu, cuda or hip, got {}", wanted));
}

}  // namespace vsa
