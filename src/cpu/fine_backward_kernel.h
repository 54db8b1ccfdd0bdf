// The fine stage's gradients for one tile. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "src/cpu/combine_kernel.h"
#include "src/cpu/float_buffer.h"
#include "src/cpu/rows.h"
#include "vsa/tiling.h"

namespace vsa::cpu {

/// Keys and values of one head in panels, tile after tile, valid tokens only.
struct BackwardKv {
  const float* k_transposed;  ///< pack_transposed of each tile of k
  const float* v_transposed;  ///< pack_transposed of each tile of v
  const float* k_rows;        ///< pack_rows of each tile of k
  int64_t transposed_stride;  ///< floats from tile to tile: head_dim * round_up_lanes(tile_tokens)
  int64_t rows_stride;        ///< tile_tokens * round_up_lanes(head_dim)
  int64_t head_dim;
  const TilePlan* plan;
};

/// Queries of one head and what is needed of their gradient, tile after tile: slot s of tile i is
/// row i * tile_tokens + s. Rows are round_up_lanes(head_dim) apart.
struct BackwardQueries {
  float* q;         ///< [rows, ld], times scale * log2(e)
  float* dout;      ///< [rows, ld], gradient of the fine stage's output
  float* lse_log2;  ///< [rows], lse * log2(e)
  float* delta;     ///< [rows], dout . out
  const TilePlan* plan;
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

/// dq[rows of the tile, ld] = ds k over the kv tiles; still to be multiplied by scale.
void fine_dq_tile(const BackwardKv& kv, const BackwardQueries& queries, int64_t q_tile,
                  std::span<const int32_t> kv_tiles, float* scratch, float* dq);

/// dk[keys of the tile, ld] += ds^T q (still to be multiplied by ln 2: q has log2(e) in it) and
/// dv[keys, ld] += p^T dout over the query tiles that attend to the kv tile.
void fine_dkv_tile(const BackwardKv& kv, const BackwardQueries& queries, int64_t kv_tile,
                   std::span<const int32_t> q_tiles, float* scratch, float* dk, float* dv);

/// to = factor * gradient (+ pooled / count, the share of a tile's mean, unless null).
void store_gradient(const float* gradient, float factor, const float* pooled, int64_t head_dim,
                    const MutableRows& to);

}  // namespace vsa::cpu
