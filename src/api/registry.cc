// The only list of backends: those compiled in, and for the others why they are not. Host-only.
#include "src/api/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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

bool implements(BackendId id, std::string_view operation) {
  const BackendTable* table = find_backend(id);
  if (table == nullptr) return false;
  const std::pair<std::string_view, bool> calls[] = {
      {"tile", table->tile != nullptr},
      {"untile", table->untile != nullptr},
      {"pool", table->pool != nullptr},
      {"norm_rope_pool", table->norm_rope_pool != nullptr},
      {"coarse", table->coarse != nullptr},
      {"select", table->select != nullptr},
      {"fine", table->fine != nullptr},
      {"combine", table->combine != nullptr},
      {"pool_backward", table->pool_backward != nullptr},
      {"coarse_backward", table->coarse_backward != nullptr},
      {"fine_backward", table->fine_backward != nullptr},
      {"combine_backward", table->combine_backward != nullptr},
      {"attention_forward", table->attention_forward != nullptr},
      {"attention_backward", table->attention_backward != nullptr},
  };
  return std::ranges::any_of(
      calls, [&](const auto& call) { return call.first == operation && call.second; });
}

Result<BackendId> backend_from_name(std::string_view wanted) {
  for (const BackendId id : kBackends) {
    if (wanted == name(id)) return id;
  }
  return invalid_argument(
      fmt::format("[backend] name: expected reference, cpu, cuda or hip, got {}", wanted));
}

}  // namespace vsa
