// The softmax of the rows of a matrix. Host-only.
#pragma once

#include <cstdint>

namespace vsa::nn {

/// x = softmax(scale * x) of each row, on the calling thread.
/// @param x  [rows, width], contiguous
void softmax_rows(float* x, int64_t rows, int64_t width, float scale);

}  // namespace vsa::nn
