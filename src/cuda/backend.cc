// The table of the CUDA backend. Host-only.
#include "src/core/backend_table.h"
#include "src/cuda/cuda.h"
#include "src/cuda/device.h"

namespace vsa {
namespace {

constexpr BackendTable kTable{.id = BackendId::kCuda,
                              .info = cuda::info,
                              .has_workspace = true,
                              .tile = cuda::tile,
                              .untile = cuda::untile,
                              .pool = cuda::pool,
                              .norm_rope_pool = cuda::norm_rope_pool,
                              .coarse = cuda::coarse,
                              .select = cuda::select,
                              .fine = cuda::fine,
                              .combine = cuda::combine,
                              .pool_backward = cuda::pool_backward,
                              .coarse_backward = cuda::coarse_backward,
                              .fine_backward = cuda::fine_backward,
                              .combine_backward = cuda::combine_backward,
                              .attention_forward = cuda::attention_forward,
                              .attention_backward = cuda::attention_backward};

}  // namespace

const BackendTable& cuda_backend() { return kTable; }

}  // namespace vsa
