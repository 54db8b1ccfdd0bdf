// What callers ask about backends. Host-only.
#include "src/api/registry.h"

#include <fmt/format.h>

#include <algorithm>

namespace vsa {
namespace {

/// "reference, cpu, cuda or hip".
std::string all_names() {
  std::string names;
  for (const BackendId id : kBackendIds) {
    if (!names.empty()) names += id == kBackendIds.back() ? " or " : ", ";
    names += name(id);
  }
  return names;
}

Status check_id(std::string_view operation, BackendId id) {
  if (std::ranges::find(kBackendIds, id) != kBackendIds.end()) return {};
  return invalid_argument(fmt::format("[{}] backend: expected {}, got {}", operation, all_names(),
                                      static_cast<int>(id)));
}

}  // namespace

Result<const BackendTable*> usable_backend(std::string_view operation, BackendId id) {
  VSA_TRY(check_id(operation, id));
  const BackendTable* table = find_backend(id);
  const BackendInfo info = table != nullptr ? table->info() : BackendInfo{.detail = absence(id)};
  if (info.available) return table;
  return unsupported(fmt::format("[{}] backend: expected one that can run here, got {}; {}",
                                 operation, name(id), info.detail));
}

Result<BackendTraits> backend_traits(BackendId id) {
  VSA_TRY(check_id("backend_traits", id));
  if (const BackendTraits* traits = find_traits(id)) return *traits;
  return unsupported(fmt::format("[backend_traits] backend: expected one that exists, got {}; {}",
                                 name(id), absence(id)));
}

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> all;
  for (const BackendId id : kBackendIds) {
    const BackendTable* table = find_backend(id);
    all.push_back(table != nullptr ? table->info() : BackendInfo{.id = id, .detail = absence(id)});
  }
  return all;
}

bool implements(BackendId id, std::string_view operation) {
  const BackendTable* table = find_backend(id);
  if (table == nullptr) return false;
#define VSA_IMPLEMENTS(stage, Args, fields) \
  if (operation == #stage) return table->stage != nullptr;
  VSA_FOR_EACH_STAGE(VSA_IMPLEMENTS)
#undef VSA_IMPLEMENTS
  return false;
}

Result<BackendId> backend_from_name(std::string_view wanted) {
  for (const BackendId id : kBackendIds) {
    if (wanted == name(id)) return id;
  }
  return invalid_argument(fmt::format("[backend] name: expected {}, got {}", all_names(), wanted));
}

}  // namespace vsa
