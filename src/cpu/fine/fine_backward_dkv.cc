// Walk 2 of the fine stage's backward, over kv tiles: dk and dv. Host-only.
//
//   for a few kv heads at a time, for each query head of the group:
//     load q, gated dout, lse, delta                                      (query tiles in parallel)
//     for every kv tile:                                                     (kv tiles in parallel)
//       pack k^T and v^T; go over the query tiles that keep it; store dk and dv
#include <algorithm>
#include <vector>

#include "src/cpu/fine/fine_backward.h"
#include "src/cpu/fine/lut_t.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {
namespace {

class DkvWalk {
 public:
  explicit DkvWalk(const FineBackwardCall& call)
      : call_(call),
        num_q_tiles_(call.q_plan.num_tiles()),
        num_kv_tiles_(call.kv_plan.num_tiles()),
        max_heads_(call.heads_per_pass(num_q_tiles_ * 2 * call.q_floats)),
        num_sums_(call.group_size > 1 ? max_heads_ * num_kv_tiles_ : num_threads(call.context)),
        thread_floats_(2 * call.transposed_floats + call.kv_floats + call.scratch_floats),
        q_(max_heads_ * num_q_tiles_ * call.q_floats),
        dout_(max_heads_ * num_q_tiles_ * call.q_floats),
        lse_log2_(max_heads_ * call.q_plan.padded_len()),
        delta_(max_heads_ * call.q_plan.padded_len()),
        dk_(num_sums_ * call.kv_floats),
        dv_(num_sums_ * call.kv_floats),
        threads_(num_threads(call.context) * thread_floats_) {}

  void run() {
    for (int64_t first = 0; first < call_.num_kv_heads; first += max_heads_) {
      const int64_t num_heads = std::min(max_heads_, call_.num_kv_heads - first);
      for (int64_t g = 0; g < call_.group_size; ++g) {
        const std::vector<LutT> tables = transposed_tables(first, num_heads, g);
        parallel_for(call_.context, num_heads * num_q_tiles_, [&](int64_t item, int) {
          const int64_t n = item / num_q_tiles_;
          const int64_t i = item % num_q_tiles_;
          call_.load_queries(q_head(first + n, g), i, queries(n).tile(i));
        });
        parallel_for(call_.context, num_heads * num_kv_tiles_, [&](int64_t item, int thread) {
          const int64_t n = item / num_kv_tiles_;
          const int64_t j = item % num_kv_tiles_;
          kv_tile(first + n, n, j, tables[static_cast<size_t>(n)].q_tiles(j), g, thread);
        });
      }
    }
  }

 private:
  /// b * H + h of the g-th query head that shares kv head b * H_kv + h_kv.
  int64_t q_head(int64_t kv_head, int64_t g) const { return kv_head * call_.group_size + g; }

  std::vector<LutT> transposed_tables(int64_t first, int64_t num_heads, int64_t g) const {
    std::vector<LutT> tables;
    for (int64_t n = 0; n < num_heads; ++n) {
      const int64_t head = q_head(first + n, g);
      const int64_t heads_per_item = call_.args.q.shape[1];
      tables.emplace_back(call_.args.lut, head / heads_per_item, head % heads_per_item,
                          num_kv_tiles_);
    }
    return tables;
  }

  QueryTiles queries(int64_t n) const {
    const int64_t row = n * call_.q_plan.padded_len();
    return {.q = q_.data() + row * call_.ld,
            .dout = dout_.data() + row * call_.ld,
            .lse_log2 = lse_log2_.data() + row,
            .delta = delta_.data() + row,
            .plan = &call_.q_plan,
            .head_dim = call_.head_dim};
  }

  void kv_tile(int64_t kv_head, int64_t n, int64_t j, std::span<const int32_t> q_tiles, int64_t g,
               int thread) const {
    float* memory = threads_.data() + thread * thread_floats_;
    // Sums over a group outlive one query head; without groups they are the thread's own.
    const int64_t sum = call_.group_size > 1 ? n * num_kv_tiles_ + j : thread;
    float* dk = dk_.data() + sum * call_.kv_floats;
    float* dv = dv_.data() + sum * call_.kv_floats;
    if (g == 0) {
      std::fill_n(dk, call_.kv_floats, 0.0F);
      std::fill_n(dv, call_.kv_floats, 0.0F);
    }
    fine_dkv_tile(pack(kv_head, j, memory), queries(n), q_tiles,
                  memory + 2 * call_.transposed_floats + call_.kv_floats, dk, dv);
    if (g + 1 == call_.group_size) call_.store_dkv(dk, dv, kv_head, j);
  }

  KeyTile pack(int64_t kv_head, int64_t j, float* memory) const {
    const auto& args = call_.args;
    const int64_t b = kv_head / args.k.shape[1];
    const int64_t h = kv_head % args.k.shape[1];
    const int64_t count = call_.kv_plan.tile_len(j);
    float* k_transposed = memory;
    float* v_transposed = k_transposed + call_.transposed_floats;
    float* rows = v_transposed + call_.transposed_floats;
    load_rows(tile_rows(args.k, b, h, call_.kv_plan, j), call_.head_dim, rows, call_.ld);
    pack_transposed(rows, call_.ld, count, call_.head_dim, k_transposed);
    load_rows(tile_rows(args.v, b, h, call_.kv_plan, j), call_.head_dim, rows, call_.ld);
    pack_transposed(rows, call_.ld, count, call_.head_dim, v_transposed);
    return {.k_transposed = k_transposed,
            .v_transposed = v_transposed,
            .k_rows = nullptr,
            .num_keys = count};
  }

  const FineBackwardCall& call_;
  const int64_t num_q_tiles_, num_kv_tiles_, max_heads_, num_sums_, thread_floats_;
  FloatBuffer q_, dout_;          // [max_heads, padded_len, ld]
  FloatBuffer lse_log2_, delta_;  // [max_heads, padded_len]
  FloatBuffer dk_, dv_;           // [num_sums, kv_floats]
  FloatBuffer threads_;           // [threads]: a tile's k^T, v^T, rows being packed; scratch
};

}  // namespace

void fine_backward_dkv(const FineBackwardCall& call) { DkvWalk(call).run(); }

}  // namespace vsa::cpu
