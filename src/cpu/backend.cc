// The table of the CPU backend: Highway kernels, OpenMP threads. Host-only.
#include "src/core/backend_table.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/isa.h"

namespace vsa::cpu {
namespace {

BackendInfo info() {
  const IsaChoice& choice = isa();
  return {.id = BackendId::kCpu, .available = choice.target != 0, .detail = choice.detail};
}

constexpr BackendTable kTable{.id = BackendId::kCpu,
                              .info = info,
                              .traits = {.token_dtypes = {DType::kF32, DType::kBF16, DType::kF16},
                                         .tile_dtypes = DType::kF32,
                                         .head_dim_step = 8,  // one AVX2 vector of floats
                                         .max_head_dim = 256,
                                         .has_threads = true,
                                         .head_dim_remedy = "the reference backend takes any"},
                              VSA_FOR_EACH_STAGE(VSA_TABLE_ENTRY)};

}  // namespace
}  // namespace vsa::cpu

const vsa::BackendTable& vsa::cpu_backend() { return cpu::kTable; }
