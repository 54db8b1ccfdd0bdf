// The fine stage's gradients for one tile. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "src/cpu/combine/combine_kernel.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/rows.h"
#include "vsa/tiling.h"

namespace vsa::cpu {

/// One kv tile in panels, valid tokens only.
struct KeyTile {
  const float* k_transposed;  ///< pack_transposed of k
  const float* v_transposed;  ///< pack_transposed of v
  const float* k_rows;        ///< pack_rows of k; for dq only
  int64_t num_keys;
};

/// One query tile, valid tokens only: what is needed of its queries and of their gradient. Rows are
/// round_up_lanes(head_dim) apart.
struct QueryTile {
  float* q;         ///< [num_rows, ld], times scale * log2(e)
  float* dout;      ///< [num_rows, ld], gradient of the fine stage's output
  float* lse_log2;  ///< [num_rows], lse * log2(e)
  float* delta;     ///< [num_rows], dout . out
  int64_t num_rows;
};

/// The tiles of one head, one after the other at equal distances.
struct KeyTiles {
  const float* k_transposed;
  const float* v_transposed;
  const float* k_rows;
  const TilePlan* plan;
  int64_t head_dim;

  KeyTile tile(int64_t j) const {
    const int64_t transposed = head_dim * round_up_lanes(plan->tile_tokens());
    return {.k_transposed = k_transposed + j * transposed,
            .v_transposed = v_transposed + j * transposed,
            .k_rows = k_rows + j * plan->tile_tokens() * round_up_lanes(head_dim),
            .num_keys = plan->tile_len(j)};
  }
};
struct QueryTiles {
  float* q;
  float* dout;
  float* lse_log2;
  float* delta;
  const TilePlan* plan;
  int64_t head_dim;

  QueryTile tile(int64_t i) const {
    const int64_t row = i * plan->tile_tokens();
    const int64_t ld = round_up_lanes(head_dim);
    return {.q = q + row * ld,
            .dout = dout + row * ld,
            .lse_log2 = lse_log2 + row,
            .delta = delta + row,
            .num_rows = plan->tile_len(i)};
  }
};

/// Fills delta[i] = dout_i . out_i and dout_i = gate_i * dout_i for the rows of one tile.
struct OutputGradient {
  Rows dout, out;
  GateRows gate;
  int64_t head_dim;
};
void load_output_gradient(const OutputGradient& tile, float* dout, float* delta);

/// Floats of scratch for fine_dq_tile and fine_dkv_tile.
inline int64_t fine_backward_scratch_size(int64_t q_tile_tokens, int64_t kv_tile_tokens) {
  return 2 * q_tile_tokens * round_up_lanes(kv_tile_tokens);
}

/// dq[num_rows, ld] = ds k over the kv tiles; still to be multiplied by scale.
void fine_dq_tile(const KeyTiles& keys, const QueryTile& queries, std::span<const int32_t> kv_tiles,
                  float* scratch, float* dq);

/// dk[num_keys, ld] += ds^T q (still to be multiplied by ln 2: q has log2(e) in it) and
/// dv[num_keys, ld] += p^T dout over the query tiles that attend to the kv tile.
void fine_dkv_tile(const KeyTile& keys, const QueryTiles& queries, std::span<const int32_t> q_tiles,
                   float* scratch, float* dk, float* dv);

/// to = factor * gradient (+ pooled / count, the share of a tile's mean, unless null).
void store_gradient(const float* gradient, float factor, const float* pooled, int64_t head_dim,
                    const MutableRows& to);

}  // namespace vsa::cpu
