// Attention with a bias for each distance, of one query. Host-only.
#pragma once

#include <cstdint>

namespace vsa::cpu {

/// The keys and values of one head.
struct RelativeKv {
  const float* k_packed;  ///< pack_transposed of the keys
  const float* v;         ///< [num_keys, ld], ld = round_up_lanes(head_dim)
  int64_t num_keys;
  int64_t head_dim;
};

/// out[0, ld) = softmax(scale * q . k_j + bias_j) v; 0 if all scores are -inf.
/// @param bias    of each key, and -inf up to round_up_lanes(num_keys)
/// @param scores  scratch of round_up_lanes(num_keys) floats
void relative_attention_row(const RelativeKv& kv, const float* q, float scale, const float* bias,
                            float* scores, float* out);

}  // namespace vsa::cpu
