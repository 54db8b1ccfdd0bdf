// The table of the reference backend: scalar fp64, the specification. Host-only.
#include "src/core/backend_table.h"

namespace vsa {
namespace {

BackendInfo info() {
  return {.id = BackendId::kReference, .available = true, .detail = "scalar fp64"};
}

constexpr BackendTable kTable{.id = BackendId::kReference, .info = info};

}  // namespace

const BackendTable& reference_backend() { return kTable; }

}  // namespace vsa
