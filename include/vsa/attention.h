// Video Sparse Attention in one call: all seven stages, forward and backward. Host-only.
#pragma once

#include <optional>

#include "vsa/stages.h"

namespace vsa {

/// The whole operator:  out = gate_fine * fine(lut) + gate_coarse * coarse, where lut =
/// select(coarse). Shapes, dtypes and errors as in stages.h. With topk = all kv tiles the fine
/// stage is dense attention, and nothing else changes.
struct AttentionArgs {
  ConstTensor q;     ///< [B, H, Sq, D]
  ConstTensor k, v;  ///< [B, H_kv, Sk, D]
  Gate gate_coarse;  ///< must be set; a tensor is [B, H, Sq, D]
  Gate gate_fine = Gate::one();
  const TilePlan* q_plan = nullptr;
  const TilePlan* kv_plan = nullptr;
  SelectOptions select{};        ///< ignored if `lut` is given
  ConstLut lut{};                ///< the caller's own selection; empty: by `select`
  std::optional<float> scale{};  ///< default 1 / sqrt(D)
  CoarseRounding rounding = CoarseRounding::kNone;

  // Results that the caller has already, which are then not computed again; each may be empty.
  ConstTensor q_pooled{};              ///< [B, H, Nq, D] f32: as `pool` or `norm_rope_pool` gave it
  ConstTensor k_pooled{}, v_pooled{};  ///< [B, H_kv, Nk, D] f32
  /// [B, H, Nq, D] f32: as `coarse` gave it. With a `lut`, too, no coarse stage runs.
  ConstTensor coarse_out{};

  Tensor out;         ///< [B, H, Sq, D]
  Tensor lse{};       ///< [B, H, Sq, 1] f32, natural log; may be empty; backward needs it
  Tensor fine_out{};  ///< [B, H, Sq, D]; may be empty; backward needs it
  /// The selection that ran, pitch >= that of `lut`, else lut_pitch(select, Nk); may be empty;
  /// backward needs it (or the caller's lut).
  Lut lut_out{};
};
/// Cost: 4*D FLOP per kept pair of tokens, plus 4*D per pair of tiles; on the CPU backend memory of
/// one packed k/v head beyond inputs and outputs.
Status attention_forward(const Context& context, const AttentionArgs& args);

/// Gradients of attention_forward. Top-k is a constant; q and k receive gradient through the coarse
/// softmax and through the fine stage.
struct AttentionBackwardArgs {
  ConstTensor q, k, v;
  Gate gate_coarse;
  Gate gate_fine = Gate::one();
  const TilePlan* q_plan = nullptr;
  const TilePlan* kv_plan = nullptr;
  ConstLut lut;  ///< the selection that forward used
  std::optional<float> scale{};
  ConstTensor lse;       ///< from forward
  ConstTensor fine_out;  ///< from forward
  ConstTensor dout;      ///< [B, H, Sq, D]; padding is not read

  Tensor dq;              ///< [B, H, Sq, D]
  Tensor dk, dv;          ///< [B, H_kv, Sk, D]
  Tensor dgate_coarse{};  ///< [B, H, Sq, D]; may be empty
  Tensor dgate_fine{};    ///< [B, H, Sq, D]; may be empty
};
Status attention_backward(const Context& context, const AttentionBackwardArgs& args);

}  // namespace vsa
