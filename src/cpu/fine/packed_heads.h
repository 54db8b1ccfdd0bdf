// Keys and values of a few heads at a time, packed for the kernels. Host-only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/cpu/coarse/coarse_kernel.h"
#include "src/cpu/fine/fine_kernel.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"
#include "vsa/backend.h"

namespace vsa::cpu {

/// What pack() makes of each head.
struct PackOptions {
  bool fine = true;                                 ///< panels of the tokens
  bool pooled = true;                               ///< means of the tiles
  ConstTensor k_pooled{}, v_pooled{};               ///< the means, if they exist already
  CoarseRounding rounding = CoarseRounding::kNone;  ///< of the means
};

/// Packed k and v of some key/value heads. Operators walk over all B * H_kv heads in passes: one
/// long head at a time keeps the memory small and the head's panels in the last cache level, many
/// short ones keep all threads busy.
class PackedHeads {
 public:
  PackedHeads(const Context& context, const ConstTensor& k, const ConstTensor& v,
              const TilePlan& plan, const PackOptions& options);

  /// Packs all heads in passes, and after each calls work(n, b, h, i, thread) for the query tiles i
  /// of query heads (b, h) of q that it serves; their keys are those of fine(n) and pooled(n).
  template <class Work>
  void for_each_query_tile(const Context& context, const ConstTensor& q, int64_t num_q_tiles,
                           const Work& work) {
    const int64_t num_kv_heads = k_.shape[0] * k_.shape[1];
    const int64_t group_size = q.shape[1] / k_.shape[1];
    for (int64_t first = 0; first < num_kv_heads; first += max_heads_) {
      const int64_t num_heads = std::min(max_heads_, num_kv_heads - first);
      pack(context, first, num_heads);
      parallel_for(context, num_heads * group_size * num_q_tiles, [&](int64_t item, int thread) {
        const int64_t head = item / num_q_tiles;  // among the query heads of this pass
        const int64_t q_head = first * group_size + head;
        work(head / group_size, q_head / q.shape[1], q_head % q.shape[1], item % num_q_tiles,
             thread);
      });
    }
  }

  /// Head first + n of the last pack().
  PackedKv fine(int64_t n) const;
  PooledKv pooled(int64_t n) const;

 private:
  /// Packs heads first <= b * H_kv + h_kv < first + num_heads, num_heads <= max_heads_.
  void pack(const Context& context, int64_t first, int64_t num_heads);
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
