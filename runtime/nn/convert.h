// Between the types that weights are stored in and f32. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/io/storage_type.h"
#include "runtime/nn/weight.h"

namespace vsa::nn {

/// to[i] = scale * from[i], on the calling thread.
/// @param from  n numbers of type F16, BF16, F32 or F64, at any address
void widen(io::StorageType type, const std::byte* from, int64_t n, float scale, float* to);

/// The same with all threads.
void widen_parallel(io::StorageType type, const std::byte* from, int64_t n, float scale, float* to);

/// The inverse for numbers that F16 or BF16 hold exactly, with all threads.
/// @param to  n numbers of `type`, aligned to them
void narrow_parallel(io::StorageType type, const float* from, int64_t n, std::byte* to);

/// All values of a weight in f32, with its change made; none of an empty one. Throws as changed().
std::vector<float> values(const Weight& weight);

}  // namespace vsa::nn
