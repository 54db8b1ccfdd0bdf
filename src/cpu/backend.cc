// The table of the CPU backend: Highway kernels, OpenMP threads. Host-only.
#include "src/core/backend_table.h"

namespace vsa {
namespace {

BackendInfo info() { return {.id = BackendId::kCpu, .available = true, .detail = ""}; }

constexpr BackendTable kTable{.id = BackendId::kCpu, .info = info};

}  // namespace

const BackendTable& cpu_backend() { return kTable; }

}  // namespace vsa
