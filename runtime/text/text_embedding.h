// A prompt between the text encoder and the transformer. Host-only.
#pragma once

#include <cstdint>

#include "runtime/nn/buffer.h"

namespace vsa::text {

/// Text as the transformer reads it, in f32.
struct TextEmbedding {
  nn::Buffer rows;       ///< [num_rows, d_model]; rows from num_valid on are exactly 0
  int64_t num_rows = 0;  ///< the length that models pad to
  int64_t num_valid = 0;
};

}  // namespace vsa::text
