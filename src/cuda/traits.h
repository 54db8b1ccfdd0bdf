// The traits of the CUDA backend: which arguments it accepts. Host-only; it needs no CUDA header,
// so that validation by these traits is tested everywhere.
#pragma once

#include "vsa/backend.h"

namespace vsa::cuda {

inline constexpr BackendTraits kTraits{
    .token_dtypes = {DType::kBF16, DType::kF16},
    .tile_dtypes = DType::kF32,
    .head_dim_step = 64,
    .max_head_dim = 128,
    .row_bytes = 16,  // alignment that TMA and vector loads need
    .memory = MemoryKind::kDevice,
    .has_workspace = true,
    .has_streams = true,
    .dtype_remedy = "convert it, or take the cpu backend",
    .head_dim_remedy = "the cpu backend takes multiples of 8 up to 256"};

/// The libraries that the backend loads at run time if they are installed.
inline constexpr std::string_view kCublasName = "cuBLAS";
inline constexpr std::string_view kCudnnName = "cuDNN";
inline constexpr std::string_view kNcclName = "NCCL";
inline constexpr std::string_view kLibraryNames[] = {kCublasName, kCudnnName, kNcclName};

}  // namespace vsa::cuda
