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
#include <algorithm>
#include <vector>

#include "src/core/lut_row.h"
#include "src/cpu/coarse/round_bf16.h"
#include "src/cpu/combine/combine_kernel.h"
#include "src/cpu/fine/attend.h"
#include "src/cpu/fine/packed_heads.h"
#include "src/cpu/select/select_row.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/padding.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {
namespace {

/// Which branches a call needs to compute.
struct Branches {
  explicit Branches(const AttentionArgs& args)
      : fine(!args.gate_fine.is_zero() || !args.fine_out.empty() || !args.lse.empty()),
        coarse_out(!args.gate_coarse.is_zero() && args.coarse_out.empty()),
        select(args.lut.empty() && (fine || !args.lut_out.empty())) {}
  bool fine, coarse_out, select;
  bool coarse() const { return coarse_out || select; }
};

/// One thread's memory for a query tile.
struct QueryScratch {
  explicit QueryScratch(const AttentionArgs& args)
      : fine(*args.q_plan, *args.kv_plan, args.q.shape[3]),
        q_mean(fine.ld),
        scores(round_up_lanes(args.kv_plan->num_tiles())),
        weights(round_up_lanes(args.kv_plan->num_tiles())),
        coarse_out(fine.ld) {
    ranks.reserve(static_cast<size_t>(args.kv_plan->num_tiles()));
    kept.reserve(static_cast<size_t>(args.kv_plan->num_tiles()));
  }
  FineScratch fine;
  FloatBuffer q_mean;           // [head_dim]
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
        heads_(context, args.k, args.v, *args.kv_plan,
               {.fine = branches_.fine,
                .pooled = branches_.coarse(),
                .k_pooled = args.k_pooled,
                .v_pooled = args.v_pooled,
                .rounding = args.rounding}) {
    for (int t = 0; t < num_threads(context); ++t) scratch_.emplace_back(args);
  }

  void run() {
    zero_padding(args_.out, *args_.q_plan);
    zero_padding(args_.fine_out, *args_.q_plan);
    zero_padding(args_.lse, *args_.q_plan);
    heads_.for_each_query_tile(context_, args_.q, args_.q_plan->num_tiles(),
                               [&](int64_t n, int64_t b, int64_t h, int64_t i, int thread) {
                                 query_tile(n, b, h, i, scratch_[static_cast<size_t>(thread)]);
                               });
  }

 private:
  /// Query tile i of query head (b, h), whose keys are packed head n.
  void query_tile(int64_t n, int64_t b, int64_t h, int64_t i, QueryScratch& s) const {
    const TilePlan& plan = *args_.q_plan;
    float* const q = s.fine.q.data();
    load_rows(tile_rows(args_.q, b, h, plan, i), head_dim_, q, head_dim_);
    if (branches_.coarse()) coarse(heads_.pooled(n), b, h, i, s);
    const std::span<const int32_t> kept = kept_tiles(b, h, i, s);
    if (!args_.lut_out.empty()) {
      store_lut_row(args_.lut_out, lut_row_idx(args_.lut_out.dims, b, h, i), kept);
    }
    if (branches_.fine) {
      attend(heads_.fine(n), *args_.scale, plan.tile_len(i), kept,
             {tile_rows(args_.fine_out, b, h, plan, i), tile_rows(args_.lse, b, h, plan, i)},
             s.fine);
    }
    combine_tile({.fine_out = s.fine.out.data(),
                  .ld = s.fine.ld,
                  .coarse_out = args_.coarse_out.empty() ? s.coarse_out.data()
                                                         : f32_row(args_.coarse_out, b, h, i),
                  .gate_fine = gate_rows(args_.gate_fine, b, h, plan, i),
                  .gate_coarse = gate_rows(args_.gate_coarse, b, h, plan, i),
                  .head_dim = head_dim_,
                  .out = tile_rows(args_.out, b, h, plan, i)});
  }

  void coarse(const PooledKv& kv, int64_t b, int64_t h, int64_t i, QueryScratch& s) const {
    float* const mean = s.q_mean.data();
    if (args_.q_pooled.empty()) {
      mean_of_rows(s.fine.q.data(), head_dim_, args_.q_plan->tile_len(i), head_dim_, mean);
    } else {
      std::copy_n(f32_row(args_.q_pooled, b, h, i), head_dim_, mean);
    }
    round_row(args_.rounding, mean, head_dim_);
    coarse_scores_row(kv, mean, *args_.scale, s.scores.data());
    if (branches_.coarse_out) {
      coarse_out_row(kv, s.scores.data(), s.weights.data(), s.coarse_out.data());
    }
  }

  std::span<const int32_t> kept_tiles(int64_t b, int64_t h, int64_t i, QueryScratch& s) const {
    if (!args_.lut.empty()) return lut_row(args_.lut, b, h, i);
    if (!branches_.select) return {};
    select_row(s.scores.data(), args_.kv_plan->num_tiles(), i, args_.select, s.ranks, s.kept);
    return s.kept;
  }

  const Context& context_;
  const AttentionArgs& args_;
  const Branches branches_;
  const int64_t head_dim_;
  PackedHeads heads_;
  std::vector<QueryScratch> scratch_;  // one each thread
};

}  // namespace

Status attention_forward(const Context& context, const AttentionArgs& args) {
  Forward(context, args).run();
  return {};
}

}  // namespace vsa::cpu
