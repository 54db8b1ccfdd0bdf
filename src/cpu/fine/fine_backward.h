// The fine stage's gradients as part of the whole operator's. Host-only.
#pragma once

#include "src/cpu/fine/fine_backward_kernel.h"
#include "vsa/stages.h"

namespace vsa::cpu {

/// What the whole operator adds to fine_backward.
struct FineBackwardExtras {
  Gate gate_fine = Gate::one();  ///< the gradient of `fine`'s output is gate_fine * dout
  ConstTensor dq_pooled;         ///< [B, H, Nq, D] f32; added to dq as shares of the means
  ConstTensor dk_pooled;         ///< [B, H_kv, Nk, D]; all three or none
  ConstTensor dv_pooled;
};

/// The arguments of a backward call and the numbers that both of its walks need.
struct FineBackwardCall {
  FineBackwardCall(const Context& context, const FineBackwardArgs& args,
                   const FineBackwardExtras& extras);

  const Context& context;
  const FineBackwardArgs& args;
  const FineBackwardExtras& extras;
  const TilePlan& q_plan;
  const TilePlan& kv_plan;
  int64_t head_dim, ld;  // ld = round_up_lanes(head_dim)
  int64_t num_kv_heads;  // B * H_kv
  int64_t group_size;
  int64_t transposed_floats, kv_floats, q_floats;  // of a tile: pack_transposed, pack_rows; queries
  int64_t scratch_floats;

  /// How many kv heads share a pass, if each takes head_floats of packed memory.
  int64_t heads_per_pass(int64_t head_floats) const;
  /// Fills the query tile: tile i of query head b * H + h.
  void load_queries(int64_t head, int64_t i, const QueryTile& to) const;
  /// dq = factor * gradient, plus the pooled share.
  void store_dq(const float* dq, int64_t head, int64_t i) const;
  /// dk and dv of tile j of kv head b * H_kv + h_kv.
  void store_dkv(const float* dk, const float* dv, int64_t kv_head, int64_t j) const;
};

/// Walk 1: every query tile goes over its kv tiles. Memory: k^T, v^T and k of a pass.
void fine_backward_dq(const FineBackwardCall& call);
/// Walk 2: every kv tile goes over the query tiles that keep it. Memory: q and dout of a pass, and
/// with groups the sums of dk and dv.
void fine_backward_dkv(const FineBackwardCall& call);

Status fine_backward(const Context& context, const FineBackwardArgs& args,
                     const FineBackwardExtras& extras);

}  // namespace vsa::cpu
