// The table of the CPU backend: Highway kernels, OpenMP threads. Host-only.
#include "src/core/backend_table.h"
#include "src/cpu/cpu.h"
#include "src/cpu/isa.h"

namespace vsa {
namespace {

BackendInfo info() {
  const cpu::IsaChoice& isa = cpu::isa();
  return {.id = BackendId::kCpu, .available = isa.target != 0, .detail = isa.detail};
}

constexpr BackendTable kTable{.id = BackendId::kCpu,
                              .info = info,
                              .tile = cpu::tile,
                              .untile = cpu::untile,
                              .pool = cpu::pool,
                              .coarse = cpu::coarse,
                              .select = cpu::select,
                              .fine = cpu::fine,
                              .combine = cpu::combine,
                              .pool_backward = cpu::pool_backward,
                              .coarse_backward = cpu::coarse_backward,
                              .fine_backward = cpu::fine_backward,
                              .combine_backward = cpu::combine_backward,
                              .attention_forward = cpu::attention_forward,
                              .attention_backward = cpu::attention_backward};

}  // namespace

const BackendTable& cpu_backend() { return kTable; }

}  // namespace vsa
