// The fine stage of one query tile. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "src/cpu/support/float_buffer.h"
#include "vsa/tiling.h"

namespace vsa::cpu {

/// The keys and values of one head in panels, tile after tile. Of tile j only its valid tokens
/// are there; see pack.h.
struct PackedKv {
  const float* k;         ///< pack_transposed of each tile, k_tile_stride floats apart
  const float* v;         ///< pack_rows of each tile, v_tile_stride floats apart
  int64_t k_tile_stride;  ///< head_dim * round_up_lanes(tile_tokens)
  int64_t v_tile_stride;  ///< tile_tokens * round_up_lanes(head_dim)
  int64_t head_dim;
  const TilePlan* plan;
};

/// One query tile and the kv tiles it attends to.
struct FineTile {
  const float* q;  ///< [num_rows, head_dim], already times scale * log2(e)
  int64_t num_rows;
  std::span<const int32_t> kv_tiles;
};

/// Floats of scratch that fine_tile needs for tiles of that many tokens.
inline int64_t fine_scratch_size(int64_t q_tile_tokens, int64_t kv_tile_tokens) {
  return q_tile_tokens * (round_up_lanes(kv_tile_tokens) + kMaxLanes + 1);
}

/// out[num_rows, round_up_lanes(head_dim)] = softmax(q k^T) v over the valid keys, and the natural
/// log of the sum of exponentials in lse[num_rows]. Without keys, out is 0 and lse -inf.
void fine_tile(const PackedKv& kv, const FineTile& tile, float* scratch, float* out, float* lse);

}  // namespace vsa::cpu
