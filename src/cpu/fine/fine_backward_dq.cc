// Walk 1 of the fine stage's backward, over query tiles: dq. Host-only.
//
//   for a few kv heads at a time:  pack k^T, v^T and k                       (kv tiles in parallel)
//     for every query tile of their query heads:                          (query tiles in parallel)
//       load q, gated dout, lse, delta; go over the kept kv tiles; store dq
#include <algorithm>

#include "src/core/lut_row.h"
#include "src/cpu/fine/fine_backward.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {
namespace {

class DqWalk {
 public:
  explicit DqWalk(const FineBackwardCall& call)
      : call_(call),
        num_kv_tiles_(call.kv_plan.num_tiles()),
        max_heads_(
            call.heads_per_pass(num_kv_tiles_ * (2 * call.transposed_floats + call.kv_floats))),
        thread_floats_(2 * call.q_floats + std::max(call.q_floats, call.kv_floats) +
                       2 * round_up_lanes(call.q_plan.tile_tokens()) + call.scratch_floats),
        k_transposed_(max_heads_ * num_kv_tiles_ * call.transposed_floats),
        v_transposed_(max_heads_ * num_kv_tiles_ * call.transposed_floats),
        k_rows_(max_heads_ * num_kv_tiles_ * call.kv_floats),
        threads_(num_threads(call.context) * thread_floats_) {}

  void run() {
    const int64_t num_q_tiles = call_.q_plan.num_tiles();
    for (int64_t first = 0; first < call_.num_kv_heads; first += max_heads_) {
      const int64_t num_heads = std::min(max_heads_, call_.num_kv_heads - first);
      parallel_for(call_.context, num_heads * num_kv_tiles_, [&](int64_t item, int thread) {
        pack(first + item / num_kv_tiles_, item, threads_.data() + thread * thread_floats_);
      });
      parallel_for(call_.context, num_heads * call_.group_size * num_q_tiles,
                   [&](int64_t item, int thread) {
                     const int64_t head = item / num_q_tiles;  // among the query heads of this pass
                     query_tile(head / call_.group_size, first * call_.group_size + head,
                                item % num_q_tiles, threads_.data() + thread * thread_floats_);
                   });
    }
  }

 private:
  /// Packs the kv tile of slot n * num_kv_tiles + j.
  void pack(int64_t kv_head, int64_t slot, float* rows) const {
    const auto& args = call_.args;
    const int64_t b = kv_head / args.k.shape[1];
    const int64_t h = kv_head % args.k.shape[1];
    const int64_t j = slot % num_kv_tiles_;
    const int64_t count = call_.kv_plan.tile_len(j);
    load_rows(tile_rows(args.k, b, h, call_.kv_plan, j), call_.head_dim, rows, call_.ld);
    pack_transposed(rows, call_.ld, count, call_.head_dim,
                    k_transposed_.data() + slot * call_.transposed_floats);
    pack_rows(rows, call_.ld, count, call_.head_dim, k_rows_.data() + slot * call_.kv_floats);
    load_rows(tile_rows(args.v, b, h, call_.kv_plan, j), call_.head_dim, rows, call_.ld);
    pack_transposed(rows, call_.ld, count, call_.head_dim,
                    v_transposed_.data() + slot * call_.transposed_floats);
  }

  void query_tile(int64_t n, int64_t q_head, int64_t i, float* memory) const {
    const KeyTiles keys{
        .k_transposed = k_transposed_.data() + n * num_kv_tiles_ * call_.transposed_floats,
        .v_transposed = v_transposed_.data() + n * num_kv_tiles_ * call_.transposed_floats,
        .k_rows = k_rows_.data() + n * num_kv_tiles_ * call_.kv_floats,
        .plan = &call_.kv_plan,
        .head_dim = call_.head_dim};
    const int64_t tokens = round_up_lanes(call_.q_plan.tile_tokens());
    float* dq = memory;
    float* q = dq + std::max(call_.q_floats, call_.kv_floats);
    float* dout = q + call_.q_floats;
    float* lse_log2 = dout + call_.q_floats;
    float* delta = lse_log2 + tokens;
    const QueryTile queries{.q = q,
                            .dout = dout,
                            .lse_log2 = lse_log2,
                            .delta = delta,
                            .num_rows = call_.q_plan.tile_len(i)};
    call_.load_queries(q_head, i, queries);
    const int64_t num_heads = call_.args.q.shape[1];
    fine_dq_tile(keys, queries, lut_row(call_.args.lut, q_head / num_heads, q_head % num_heads, i),
                 delta + tokens, dq);
    call_.store_dq(dq, q_head, i);
  }

  const FineBackwardCall& call_;
  const int64_t num_kv_tiles_, max_heads_, thread_floats_;
  FloatBuffer k_transposed_, v_transposed_;  // [max_heads, num_kv_tiles, transposed_floats]
  FloatBuffer k_rows_;                       // [max_heads, num_kv_tiles, kv_floats]
  FloatBuffer
      threads_;  // [threads]: a tile's dq (or rows being packed), q, dout, lse, delta; scratch
};

}  // namespace

void fine_backward_dq(const FineBackwardCall& call) { DqWalk(call).run(); }

}  // namespace vsa::cpu
