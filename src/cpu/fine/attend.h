// The fine stage of one query tile from and to tensors: the stage's own work, and the operator's.
// Host-only.
#pragma once

#include "src/cpu/fine/fine_kernel.h"
#include "src/cpu/support/rows.h"
#include "vsa/stages.h"

namespace vsa::cpu {

/// One thread's memory for the fine stage of a query tile.
struct FineScratch {
  FineScratch(const TilePlan& q_plan, const TilePlan& kv_plan, int64_t head_dim)
      : ld(round_up_lanes(head_dim)),
        q(q_plan.tile_tokens() * ld),
        out(q_plan.tile_tokens() * ld),
        lse(q_plan.tile_tokens()),
        work(fine_scratch_size(q_plan.tile_tokens(), kv_plan.tile_tokens())) {}
  int64_t ld;                     ///< distance of rows in `out`
  FloatBuffer q, out, lse, work;  // [tile_tokens, head_dim], [tile_tokens, ld], [tile_tokens]
};

/// Where the results go besides the scratch; a tensor may be empty.
struct FineOutputs {
  MutableRows out, lse;
};

/// The last token of the kv sequence, where it stands for further equal ones: FineArgs.
struct RepeatedKey {
  const float* k = nullptr;  ///< [head_dim]; null: it is not kept, or stands for itself alone
  const float* v = nullptr;
  float repeats = 0.0F;
};

/// s.out and s.lse = the attention of the queries in s.q, which are scaled first, to `kv_tiles`.
void attend(const PackedKv& kv, float scale, int64_t num_rows, std::span<const int32_t> kv_tiles,
            const FineOutputs& outputs, FineScratch& s, const RepeatedKey& repeated = {});

}  // namespace vsa::cpu
