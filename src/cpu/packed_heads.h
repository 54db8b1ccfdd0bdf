// Keys and values of a few heads at a time, packed for the kernels. Host-only.
#pragma once

#include <cstdint>

#include "src/cpu/coarse_kernel.h"
#include "src/cpu/fine_kernel.h"
#include "src/cpu/float_buffer.h"
#include "src/cpu/rows.h"
#include "vsa/backend.h"

namespace vsa::cpu {

/// What pack() makes of each head.
struct PackOptions {
  bool fine = true;                                 ///< panels of the tokens
  bool pooled = true;                               ///< means of the tiles
  CoarseRounding rounding = CoarseRounding::kNone;  ///< of the means
};

/// Packed k and v of up to max_heads() key/value heads. Operators walk over all B * H_kv heads in
/// passes of that many: one long head at a time keeps the memory small and the head's panels in the
/// last cache level, many short ones keep all threads busy.
class PackedHeads {
 public:
  PackedHeads(const Context& context, const ConstTensor& k, const ConstTensor& v,
              const TilePlan& plan, const PackOptions& options);

  int64_t max_heads() const { return max_heads_; }
  /// Packs heads first <= b * H_kv + h_kv < first + num_heads, num_heads <= max_heads().
  void pack(const Context& context, int64_t first, int64_t num_heads);

  /// Head first + n of the last pack().
  PackedKv fine(int64_t n) const;
  PooledKv pooled(int64_t n) const;

 private:
  void pack_tile(int64_t head, int64_t n, int64_t tile, float* rows);
  float* k_mean(int64_t n, int64_t tile) const;
  float* v_mean(int64_t n, int64_t tile) const;

  ConstTensor k_, v_;
  const TilePlan* plan_;
  PackOptions options_;
  int64_t head_dim_, ld_, k_tile_stride_, v_tile_stride_;
  int64_t max_heads_;
  FloatBuffer k_packed_, v_packed_;                 // [max_heads, num_tiles, *_tile_stride]
  FloatBuffer k_means_, k_means_packed_, v_means_;  // [max_heads, num_tiles, ld] (or packed)
  FloatBuffer rows_;                                // [threads, tile_tokens, ld]
};

}  // namespace vsa::cpu
