// The backward of the whole operator: the kernels of its stages, enqueued in this order. Host-only.
//
//   pool q, k, v -> coarse forward -> coarse_out
//   combine_backward -> dcoarse_out, dgate_coarse, dgate_fine, dfine_out, delta
//   coarse_backward -> dq_pooled, dk_pooled, dv_pooled
//   fine_backward, which adds the gradients of pooling to its own in the epilogue -> dq, dk, dv
#include <optional>

#include "src/cuda/coarse/coarse_gradients.h"
#include "src/cuda/combine/combine_backward.h"
#include "src/cuda/family.h"
#include "src/cuda/pool/pool.h"
#include "src/cuda/stages.h"
#include "src/cuda/tile/compact.h"

namespace vsa::cuda {
namespace {

const float* floats(const Tensor& t) { return static_cast<const float*>(t.data); }

/// Which stages this call needs.
struct Branches {
  explicit Branches(const AttentionBackwardArgs& args)
      : fine(!args.gate_fine.is_zero()),
        pooled_gradients(!args.gate_coarse.is_zero()),
        coarse(pooled_gradients || !args.dgate_coarse.empty()),
        gated_dout(fine && (args.gate_fine.is_tensor() || args.gate_fine.as_constant() != 1.0F)) {}
  bool fine;
  bool pooled_gradients;  ///< q, k and v get gradients through the coarse softmax
  bool coarse;            ///< coarse_out is needed
  bool gated_dout;        ///< gate_fine * dout differs from dout and needs a tensor of its own
};

/// One call: the constructor takes all memory, `run` enqueues the kernels.
class Backward {
 public:
  Backward(const Context& context, const AttentionBackwardArgs& args)
      : args_(args),
        branches_(args),
        call_("attention_backward", context),
        plans_(call_.operation(), call_.workspace, args.q_plan, args.kv_plan),
        compact_(call_.workspace) {
    const auto& [batch, num_heads, seq_len, head_dim] = args.q.shape;
    if (branches_.coarse) {
      coarse_.q_pooled = means(args.q, plans_.q(), *args.q_plan, &pool_);
      coarse_.k_pooled = means(args.k, plans_.kv(), *args.kv_plan, &pool_);
      const Tensor v_pooled = means(args.v, plans_.kv(), *args.kv_plan, &pool_);
      coarse_.v_pooled = v_pooled;
      coarse_.kv_plan = args.kv_plan;
      coarse_.scale = args.scale;
      coarse_out_ = means(args.q, plans_.q(), *args.q_plan);
      if (branches_.pooled_gradients) {
        dcoarse_out_ = means(args.q, plans_.q(), *args.q_plan);
        coarse_.dcoarse_out = dcoarse_out_;
        coarse_.dq_pooled = coarse_out_;  // replaces coarse_out, which has no reader left by then
        coarse_.dk_pooled = means(args.k, plans_.kv(), *args.kv_plan);
        coarse_.dv_pooled = v_pooled;  // likewise
      }
      coarse_gradients_.emplace(call_.workspace, coarse_.q_pooled, coarse_.k_pooled,
                                branches_.pooled_gradients);
    }
    if (!branches_.fine) return;
    dfine_out_ = args.dout;
    if (branches_.gated_dout) dfine_out_ = gated_dout_ = call_.workspace.take_like(args.q);
    q_ = compact_.of(args.q, plans_.q());
    k_ = compact_.of(args.k, plans_.kv());
    v_ = compact_.of(args.v, plans_.kv());
    dfine_out_ = compact_.of(dfine_out_, plans_.q());
    delta_ = call_.workspace.take_f32({batch, num_heads, seq_len, 1});
    fine_ = family_for(args.q.data).fine_backward(call_.workspace, plans_, args.lut.dims);
  }

  Status run() const {
    return cuda::run(call_, plans_, args_, [this](const CallSite& at) { return enqueue(at); });
  }

 private:
  /// Takes memory for the means of x or for the gradients of these means: [B, H, N, D] f32.
  /// @param pool  if not null, the pool kernel will compute the means of x there
  Tensor means(const ConstTensor& x, const PlanTable& table, const TilePlan& plan,
               PoolParams* pool = nullptr) {
    const Tensor taken =
        call_.workspace.take_f32({x.shape[0], x.shape[1], plan.num_tiles(), x.shape[3]});
    if (pool != nullptr) pool->add(x, table, taken);
    return taken;
  }

  Status enqueue(const CallSite& at) const {
    const int32_t* kv_len = plans_.kv().tile_len;
    if (branches_.coarse) {
      VSA_TRY(run_pool(at, pool_, args_.q.dtype, args_.q.shape[0]));
      VSA_TRY(coarse_gradients_->forward(at, coarse_, coarse_out_, kv_len));
    }
    VSA_TRY(combine(at));
    if (branches_.pooled_gradients) {
      VSA_TRY(coarse_gradients_->backward(at, coarse_, coarse_out_, kv_len));
    }
    return branches_.fine ? fine(at) : pooled_only(at);
  }

  Status combine(const CallSite& at) const {
    CombineBackwardParams params = combine_backward_params({.fine_out = args_.fine_out,
                                                            .coarse_out = coarse_out_,
                                                            .gate_coarse = args_.gate_coarse,
                                                            .gate_fine = args_.gate_fine,
                                                            .q_plan = args_.q_plan,
                                                            .dout = args_.dout,
                                                            .dfine_out = gated_dout_,
                                                            .dcoarse_out = dcoarse_out_,
                                                            .dgate_coarse = args_.dgate_coarse,
                                                            .dgate_fine = args_.dgate_fine},
                                                           plans_.q());
    params.delta = rows_of(delta_);
    return run_combine_backward(at, params, args_.q.dtype, args_.q.shape[0]);
  }

  Status fine(const CallSite& at) const {
    VSA_TRY(compact_.enqueue(at));
    VSA_TRY(fine_->prepare(at, args_.lut));
    return fine_->launch(at,
                         {.q = q_,
                          .k = k_,
                          .v = v_,
                          .dout = dfine_out_,
                          .lse = args_.lse,
                          .delta = floats(delta_),
                          .scale = *args_.scale,
                          .lut = args_.lut,
                          .dq_pooled = floats(coarse_.dq_pooled),
                          .dk_pooled = floats(coarse_.dk_pooled),
                          .dv_pooled = floats(coarse_.dv_pooled),
                          .dq = args_.dq,
                          .dk = args_.dk,
                          .dv = args_.dv},
                         plans_);
  }

  /// Gradients without the fine stage: those of pooling alone, or 0.
  Status pooled_only(const CallSite& at) const {
    VSA_TRY(enqueue_pool_backward(at, coarse_.dq_pooled, plans_.q(), args_.dq));
    VSA_TRY(enqueue_pool_backward(at, coarse_.dk_pooled, plans_.kv(), args_.dk));
    return enqueue_pool_backward(at, coarse_.dv_pooled, plans_.kv(), args_.dv);
  }

  const AttentionBackwardArgs& args_;
  const Branches branches_;
  Call call_;
  PlanTables plans_;
  CompactCopies compact_;
  PoolParams pool_;
  CoarseBackwardArgs coarse_;  // its gradients are empty if there are none
  Tensor coarse_out_, dcoarse_out_;
  std::optional<CoarseGradients> coarse_gradients_;
  Tensor gated_dout_, delta_;
  ConstTensor q_, k_, v_, dfine_out_;  // as the fine kernels read them
  std::unique_ptr<FineBackwardRun> fine_;
};

}  // namespace

Status attention_backward(const Context& context, const AttentionBackwardArgs& args) {
  return Backward(context, args).run();
}

}  // namespace vsa::cuda
