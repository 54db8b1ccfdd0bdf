// What the CUDA backend takes. Host-only; no CUDA header, so that its checks are tested everywhere.
#pragma once

#include "vsa/backend.h"

namespace vsa::cuda {

inline constexpr BackendTraits kTraits{
    .token_dtypes = {DType::kBF16, DType::kF16},
    .tile_dtypes = DType::kF32,
    .head_dim_step = 64,
    .max_head_dim = 128,
    .row_bytes = 16,  // what the copy engine and vector loads ask for
    .memory = MemoryKind::kDevice,
    .has_workspace = true,
    .has_streams = true,
    .dtype_remedy = "convert it, or take the cpu backend",
    .head_dim_remedy = "the cpu backend takes multiples of 8 up to 256"};

}  // namespace vsa::cuda
