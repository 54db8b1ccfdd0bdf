// Weights in the type that a device multiplies with. Host-only.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/nn/weight.h"
#include "vsa/tensor.h"

namespace vsa::device {

/// The bytes of a weight that is stored as it is wanted, so that nothing has to be computed; empty
/// otherwise.
std::span<const std::byte> as_stored(const nn::Weight& weight, DType dtype);

/// to[i] = from[i] rounded to the nearest of `dtype` (f32 or bf16), with all threads.
void round_to(DType dtype, std::span<const float> from, void* to);

}  // namespace vsa::device
