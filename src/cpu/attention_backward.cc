// The whole operator, backward: the coarse branch over means first, because its gradients are added
// where the fine stage stores its own. Host-only.
//
//   pool q, k, v -> coarse forward -> coarse_out
//   combine backward -> dcoarse_out, dgate_coarse, dgate_fine
//   coarse backward -> dq_pooled, dk_pooled, dv_pooled
//   fine backward of gate_fine * dout, plus each tile's share of those -> dq, dk, dv
//
// Tile tensors are 1 / tile_tokens of the inputs, so only the fine stage's memory counts.
#include <optional>

#include "src/cpu/coarse/coarse_backward.h"
#include "src/cpu/fine/fine_backward.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_tensor.h"

namespace vsa::cpu {
namespace {

/// The coarse branch: means, their gradients and its output.
struct CoarseBranch {
  CoarseBranch(const Context& context, const AttentionBackwardArgs& args)
      : q(means_of(args.q, *args.q_plan)),
        k(means_of(args.k, *args.kv_plan)),
        v(means_of(args.v, *args.kv_plan)),
        dq(means_of(args.q, *args.q_plan)),
        dk(means_of(args.k, *args.kv_plan)),
        dv(means_of(args.v, *args.kv_plan)),
        dout(means_of(args.q, *args.q_plan)) {
    static_cast<void>(cpu::pool(context, {.x = args.q, .plan = args.q_plan, .pooled = q.view()}));
    static_cast<void>(cpu::pool(context, {.x = args.k, .plan = args.kv_plan, .pooled = k.view()}));
    static_cast<void>(cpu::pool(context, {.x = args.v, .plan = args.kv_plan, .pooled = v.view()}));
    stage = {.q_pooled = q.view(),
             .k_pooled = k.view(),
             .v_pooled = v.view(),
             .kv_plan = args.kv_plan,
             .scale = args.scale,
             .dcoarse_out = dout.view(),
             .dq_pooled = dq.view(),
             .dk_pooled = dk.view(),
             .dv_pooled = dv.view()};
    attention.emplace(context, stage);
  }

  static FloatTensor means_of(const ConstTensor& x, const TilePlan& plan) {
    return {x, plan.num_tiles(), x.shape[3]};
  }

  FloatTensor q, k, v;           // [B, H or H_kv, Nq or Nk, D]
  FloatTensor dq, dk, dv, dout;  // the same
  CoarseBackwardArgs stage;
  std::optional<CoarseAsFine> attention;
};

/// dx from the coarse branch alone: the share of the mean's gradient, or 0.
Status store_pooled_only(const Context& context, const ConstTensor& dpooled, const TilePlan* plan,
                         const Tensor& dx) {
  if (!dpooled.empty()) {
    return cpu::pool_backward(context, {.dpooled = dpooled, .plan = plan, .dx = dx});
  }
  const FloatTensor zeros(dx, plan->num_tiles(), dx.shape[3]);
  std::fill_n(static_cast<float*>(zeros.view().data), zeros.view().num_elements(), 0.0F);
  return cpu::pool_backward(context, {.dpooled = zeros.view(), .plan = plan, .dx = dx});
}

}  // namespace

Status attention_backward(const Context& context, const AttentionBackwardArgs& args) {
  const bool has_coarse_gradient = !args.gate_coarse.is_zero();
  std::optional<CoarseBranch> coarse;
  if (has_coarse_gradient || !args.dgate_coarse.empty()) coarse.emplace(context, args);

  VSA_TRY(cpu::combine_backward(
      context, {.fine_out = args.fine_out,
                .coarse_out = coarse ? ConstTensor(coarse->attention->out()) : ConstTensor(),
                .gate_coarse = args.gate_coarse,
                .gate_fine = args.gate_fine,
                .q_plan = args.q_plan,
                .dout = args.dout,
                .dfine_out = {},
                .dcoarse_out = has_coarse_gradient ? coarse->dout.view() : Tensor(),
                .dgate_coarse = args.dgate_coarse,
                .dgate_fine = args.dgate_fine}));

  FineBackwardExtras extras;
  extras.gate_fine = args.gate_fine;
  if (has_coarse_gradient) {
    VSA_TRY(coarse->attention->backward());
    extras.dq_pooled = coarse->dq.view();
    extras.dk_pooled = coarse->dk.view();
    extras.dv_pooled = coarse->dv.view();
  }
  if (args.gate_fine.is_zero()) {
    VSA_TRY(store_pooled_only(context, extras.dq_pooled, args.q_plan, args.dq));
    VSA_TRY(store_pooled_only(context, extras.dk_pooled, args.kv_plan, args.dk));
    return store_pooled_only(context, extras.dv_pooled, args.kv_plan, args.dv);
  }
  return cpu::fine_backward(context,
                            {.q = args.q,
                             .k = args.k,
                             .v = args.v,
                             .q_plan = args.q_plan,
                             .kv_plan = args.kv_plan,
                             .lut = args.lut,
                             .scale = args.scale,
                             .out = args.fine_out,
                             .lse = args.lse,
                             .dout = args.dout,
                             .dq = args.dq,
                             .dk = args.dk,
                             .dv = args.dv},
                            extras);
}

}  // namespace vsa::cpu
