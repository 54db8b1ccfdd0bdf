// The coarse stage of one query tile. Host-only.
#pragma once

#include <cstdint>

#include "vsa/stages.h"
#include "vsa/tiling.h"

namespace vsa::cpu {

/// The pooled keys and values of one head.
struct PooledKv {
  const float* k_packed;  ///< pack_transposed of the [Nk, D] means of k
  const float* v;         ///< [Nk, ld] means of v, ld = round_up_lanes(head_dim)
  int64_t head_dim;
  const TilePlan* plan;                             ///< of the keys
  CoarseRounding rounding = CoarseRounding::kNone;  ///< of scores and what follows
};

/// scores[j] = scale * q . k_j, -inf for an empty tile and from Nk up to round_up_lanes(Nk).
void coarse_scores_row(const PooledKv& kv, const float* q, float scale, float* scores);

/// out[0, ld) = softmax(scores) v; 0 if all tiles are empty. `weights` holds round_up_lanes(Nk)
/// floats of scratch.
void coarse_out_row(const PooledKv& kv, const float* scores, float* weights, float* out);

}  // namespace vsa::cpu
