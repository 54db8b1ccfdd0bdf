// The whole operator, forward: one pass over the query tiles does pool, coarse, select, fine and
// combine while the tile is in cache. Host-only.
//
//   for a few kv heads at a time:  pack k and v and their means              (kv tiles in parallel)
//     for every query tile of their query heads:                          (query tiles in parallel)
//       load q, mean of q -> scores over kv tiles -> kept tiles -> coarse_out
//       online softmax over the kept tiles -> fine_out
//       gate_fine * fine_out + gate_coarse * coarse_out -> out
//
// Every query tile is one thread's work from load to store, so results do not depend on threads.
#include <numbers>
#include <vector>

#include "src/core/lut_row.h"
#include "src/cpu/combine_kernel.h"
#include "src/cpu/cpu.h"
#include "src/cpu/fine_kernel.h"
#include "src/cpu/packed_heads.h"
#include "src/cpu/padding.h"
#include "src/cpu/parallel.h"
#include "src/cpu/round_bf16.h"
#include "src/cpu/select_row.h"

namespace vsa::cpu {
namespace {

/// Which branches a call needs.
struct Branches {
  explicit Branches(const AttentionArgs& args)
      : fine(!args.gate_fine.is_zero() || !args.fine_out.empty() || !args.lse.empty()),
        coarse_out(!args.gate_coarse.is_zero()),
        select(args.lut.empty() && (fine || !args.lut_out.empty())) {}
  bool fine, coarse_out, select;
  bool coarse() const { return coarse_out || select; }
};

/// One thread's memory for a query tile.
struct QueryScratch {
  QueryScratch(const AttentionArgs& args, int64_t ld)
      : q(args.q_plan->tile_tokens() * ld),
        q_mean(ld),
        out(args.q_plan->tile_tokens() * ld),
        lse(args.q_plan->tile_tokens()),
        fine(fine_scratch_size(args.q_plan->tile_tokens(), args.kv_plan->tile_tokens())),
        scores(round_up_lanes(args.kv_plan->num_tiles())),
        weights(round_up_lanes(args.kv_plan->num_tiles())),
        coarse_out(ld) {
    ranks.reserve(static_cast<size_t>(args.kv_plan->num_tiles()));
    kept.reserve(static_cast<size_t>(args.kv_plan->num_tiles()));
  }
  FloatBuffer q, q_mean;        // [tile_tokens, head_dim], [head_dim]
  FloatBuffer out, lse, fine;   // [tile_tokens, ld], [tile_tokens], see fine_scratch_size
  FloatBuffer scores, weights;  // [num_kv_tiles]
  FloatBuffer coarse_out;       // [ld]
  std::vector<uint64_t> ranks;
  std::vector<int32_t> kept;
};

class Forward {
 public:
  Forward(const Context& context, const AttentionArgs& args)
      : context_(context),
        args_(args),
        branches_(args),
        head_dim_(args.q.shape[3]),
        ld_(round_up_lanes(head_dim_)),
        heads_(context, args.k, args.v, *args.kv_plan,
               {.fine = branches_.fine, .pooled = branches_.coarse(), .rounding = args.rounding}) {
    for (int t = 0; t < num_threads(context); ++t) scratch_.emplace_back(args, ld_);
  }

  void run() {
    zero_padding(args_.out, *args_.q_plan);
    zero_padding(args_.fine_out, *args_.q_plan);
    zero_padding(args_.lse, *args_.q_plan);
    const int64_t num_kv_heads = args_.k.shape[0] * args_.k.shape[1];
    const int64_t group_size = args_.q.shape[1] / args_.k.shape[1];
    const int64_t num_q_tiles = args_.q_plan->num_tiles();
    for (int64_t first = 0; first < num_kv_heads; first += heads_.max_heads()) {
      const int64_t num_heads = std::min(heads_.max_heads(), num_kv_heads - first);
      heads_.pack(context_, first, num_heads);
      parallel_for(context_, num_heads * group_size * num_q_tiles, [&](int64_t item, int thread) {
        const int64_t head = item / num_q_tiles;  // among the query heads of this pass
        query_tile(head / group_size, first * group_size + head, item % num_q_tiles,
                   scratch_[static_cast<size_t>(thread)]);
      });
    }
  }

 private:
  /// Query tile i of query head b * H + h, whose keys are packed head n.
  void query_tile(int64_t n, int64_t q_head, int64_t i, QueryScratch& s) const {
    const int64_t b = q_head / args_.q.shape[1];
    const int64_t h = q_head % args_.q.shape[1];
    const int64_t num_rows = args_.q_plan->tile_len(i);
    load_rows(tile_rows(args_.q, b, h, *args_.q_plan, i), head_dim_, s.q.data(), head_dim_);

    if (branches_.coarse()) {
      const PooledKv kv = heads_.pooled(n);
      mean_of_rows(s.q.data(), head_dim_, num_rows, head_dim_, s.q_mean.data());
      round_row(args_.rounding, s.q_mean.data(), head_dim_);
      coarse_scores_row(kv, s.q_mean.data(), *args_.scale, s.scores.data());
      if (branches_.coarse_out) {
        coarse_out_row(kv, s.scores.data(), s.weights.data(), s.coarse_out.data());
      }
    }
    const std::span<const int32_t> kept = kept_tiles(b, h, i, s);
    if (!args_.lut_out.empty()) {
      store_lut_row(args_.lut_out, lut_row_idx(args_.lut_out.dims, b, h, i), kept);
    }
    if (branches_.fine) {
      scale_rows(s.q.data(), num_rows * head_dim_, *args_.scale * std::numbers::log2e_v<float>);
      fine_tile(heads_.fine(n), {.q = s.q.data(), .num_rows = num_rows, .kv_tiles = kept},
                s.fine.data(), s.out.data(), s.lse.data());
      store_fine(b, h, i, s);
    }
    combine_tile({.fine_out = s.out.data(),
                  .ld = ld_,
                  .coarse_out = s.coarse_out.data(),
                  .gate_fine = gate_rows(args_.gate_fine, b, h, *args_.q_plan, i),
                  .gate_coarse = gate_rows(args_.gate_coarse, b, h, *args_.q_plan, i),
                  .head_dim = head_dim_,
                  .out = tile_rows(args_.out, b, h, *args_.q_plan, i)});
  }

  std::span<const int32_t> kept_tiles(int64_t b, int64_t h, int64_t i, QueryScratch& s) const {
    if (!args_.lut.empty()) return lut_row(args_.lut, b, h, i);
    if (!branches_.select) return {};
    select_row(s.scores.data(), args_.kv_plan->num_tiles(), i, args_.select, s.ranks, s.kept);
    return s.kept;
  }

  void store_fine(int64_t b, int64_t h, int64_t i, const QueryScratch& s) const {
    if (!args_.fine_out.empty()) {
      store_rows(s.out.data(), ld_, head_dim_, tile_rows(args_.fine_out, b, h, *args_.q_plan, i));
    }
    if (!args_.lse.empty()) {
      const MutableRows lse = tile_rows(args_.lse, b, h, *args_.q_plan, i);
      for (int64_t r = 0; r < lse.count; ++r) *static_cast<float*>(lse.at(r)) = s.lse.data()[r];
    }
  }

  const Context& context_;
  const AttentionArgs& args_;
  const Branches branches_;
  const int64_t head_dim_, ld_;
  PackedHeads heads_;
  std::vector<QueryScratch> scratch_;  // one each thread
};

}  // namespace

Status attention_forward(const Context& context, const AttentionArgs& args) {
  Forward(context, args).run();
  return {};
}

// Token-level attention alone: the operator with the coarse branch off and the caller's selection.
Status fine(const Context& context, const FineArgs& args) {
  AttentionArgs whole;
  whole.q = args.q;
  whole.k = args.k;
  whole.v = args.v;
  whole.gate_coarse = Gate::zero();
  whole.q_plan = args.q_plan;
  whole.kv_plan = args.kv_plan;
  whole.lut = args.lut;
  whole.scale = args.scale;
  whole.out = args.out;
  whole.lse = args.lse;
  return cpu::attention_forward(context, whole);
}

}  // namespace vsa::cpu
