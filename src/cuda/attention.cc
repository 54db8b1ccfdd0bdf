// The whole operator, forward: plans, pool, coarse, select, schedule, fine with combine. Host-only.
#include "src/cuda/coarse/coarse.h"
#include "src/cuda/combine/combine.h"
#include "src/cuda/family.h"
#include "src/cuda/pool/pool.h"
#include "src/cuda/select/select.h"
#include "src/cuda/stages.h"
#include "src/cuda/tile/compact.h"

namespace vsa::cuda {
namespace {

/// Which stages a call needs.
struct Branches {
  explicit Branches(const AttentionArgs& args)
      : fine(!args.gate_fine.is_zero() || !args.fine_out.empty() || !args.lse.empty()),
        has_coarse(!args.gate_coarse.is_zero()),
        coarse_out(has_coarse && args.coarse_out.empty()),
        select(args.lut.empty() && (fine || !args.lut_out.empty())),
        fused(fine && !args.gate_fine.is_tensor() && !args.gate_fine.is_zero() &&
              args.fine_out.empty() && (!has_coarse || coarse_out || is_fusable(args.coarse_out))) {
  }
  bool fine;
  bool has_coarse;  ///< the coarse branch is part of the output
  bool coarse_out;  ///< this call computes coarse_out, because the caller does not pass it
  bool select;
  bool fused;  ///< the epilogue of the fine kernel does the work of combine
  bool coarse() const { return coarse_out || select; }
};

/// One call: the constructor takes all memory, `run` enqueues the kernels.
class Forward {
 public:
  Forward(const Context& context, const AttentionArgs& args)
      : args_(args),
        branches_(args),
        call_("attention_forward", context),
        plans_(call_.operation(), call_.workspace, args.q_plan, args.kv_plan),
        rules_(call_.workspace, args.select, args.q_plan->num_tiles(), args.kv_plan->num_tiles()),
        compact_(call_.workspace) {
    const auto& [batch, num_heads, seq_len, head_dim] = args.q.shape;
    const int64_t num_q_tiles = args.q_plan->num_tiles();
    const int64_t num_kv_tiles = args.kv_plan->num_tiles();
    coarse_ = {.q_pooled = args.q_pooled,
               .k_pooled = args.k_pooled,
               .v_pooled = args.v_pooled,
               .kv_plan = args.kv_plan,
               .scale = args.scale,
               .rounding = args.rounding};
    coarse_out_ = args.coarse_out;
    if (branches_.coarse()) {
      const Dims scores{batch, num_heads, num_q_tiles, num_kv_tiles};
      take_means(args.q, plans_.q(), num_q_tiles, coarse_.q_pooled);
      take_means(args.k, plans_.kv(), num_kv_tiles, coarse_.k_pooled);
      coarse_.coarse_scores = take_coarse_scores(call_.workspace, scores);
      if (branches_.coarse_out) {
        take_means(args.v, plans_.kv(), num_kv_tiles, coarse_.v_pooled);
        coarse_.coarse_out = call_.workspace.take_f32({batch, num_heads, num_q_tiles, head_dim});
        coarse_out_ = coarse_.coarse_out;
        stats_ = take_coarse_stats(call_.workspace, scores);
      }
    }
    lut_ = args.lut;
    if (branches_.select) {
      selected_ = args.lut_out;
      if (args.lut_out.empty()) {
        const LutDims dims{batch, num_heads, num_q_tiles, lut_pitch(args.select, num_kv_tiles)};
        const int64_t rows = batch * num_heads * num_q_tiles;
        selected_ = {call_.workspace.take<int32_t>(rows, dims.pitch),
                     call_.workspace.take<int32_t>(rows), dims};
      }
      lut_ = selected_;
    }
    if (branches_.fine) {
      q_ = compact_.of(args.q, plans_.q());
      k_ = compact_.of(args.k, plans_.kv());
      v_ = compact_.of(args.v, plans_.kv());
      fine_ = family_for(args.q.data).fine(call_.workspace, plans_, lut_.dims, head_dim);
    }
    fine_out_ = args.fine_out;
    if (branches_.fine && !branches_.fused && fine_out_.empty()) {
      fine_out_ = call_.workspace.take_like(args.q);
    }
  }

  Status run() const {
    return cuda::run(call_, plans_, args_, [this](const CallSite& at) { return enqueue(at); });
  }

 private:
  /// Unless the caller passes the means of x: takes memory for them, and adds x to the tensors that
  /// the pool kernel reads.
  void take_means(const ConstTensor& x, const PlanTable& plan, int64_t rows, ConstTensor& means) {
    if (!means.empty()) return;
    const Tensor taken = call_.workspace.take_f32({x.shape[0], x.shape[1], rows, x.shape[3]});
    pool_.add(x, plan, taken);
    means = taken;
  }

  Status enqueue(const CallSite& at) const {
    const int64_t batch = args_.q.shape[0];
    if (branches_.select) VSA_TRY(rules_.build(at));
    if (branches_.coarse()) {
      VSA_TRY(run_pool(at, pool_, args_.q.dtype, batch));
      VSA_TRY(run_coarse(at, coarse_params(coarse_, plans_.kv().tile_len, stats_), batch));
    }
    if (branches_.select) {
      SelectParams params = rules_.params(coarse_.coarse_scores, selected_);
      params.beside_coarse_out = branches_.coarse_out;
      VSA_TRY(run_select(at, params));
    }
    if (!args_.lut.empty() && !args_.lut_out.empty()) {
      VSA_TRY(run_copy_lut(at, args_.lut, args_.lut_out));
    }
    if (branches_.fine) VSA_TRY(fine(at));
    return branches_.fused ? Status() : combine(at);
  }

  Status fine(const CallSite& at) const {
    VSA_TRY(compact_.enqueue(at));
    VSA_TRY(fine_->prepare(at, plans_, lut_));
    FineCombine combine;
    if (branches_.fused) combine.gate_fine = args_.gate_fine.as_constant();
    if (branches_.fused && branches_.has_coarse) {
      combine.coarse_out = static_cast<const float*>(coarse_out_.data);
      combine.gate_coarse = gate_rows(args_.gate_coarse);
    }
    return fine_->launch(at,
                         {.q = q_,
                          .k = k_,
                          .v = v_,
                          .q_plan = args_.q_plan,
                          .kv_plan = args_.kv_plan,
                          .lut = lut_,
                          .scale = args_.scale,
                          .out = branches_.fused ? args_.out : fine_out_,
                          .lse = args_.lse},
                         plans_, combine);
  }

  Status combine(const CallSite& at) const {
    return run_combine(at,
                       combine_params({.fine_out = fine_out_,
                                       .coarse_out = coarse_out_,
                                       .gate_coarse = args_.gate_coarse,
                                       .gate_fine = args_.gate_fine,
                                       .q_plan = args_.q_plan,
                                       .out = args_.out},
                                      plans_.q()),
                       args_.q.dtype, args_.q.shape[0]);
  }

  const AttentionArgs& args_;
  const Branches branches_;
  Call call_;
  PlanTables plans_;
  SelectRules rules_;
  CompactCopies compact_;
  ConstTensor q_, k_, v_;  // as the fine kernel reads them
  PoolParams pool_;        // for the means that the caller does not pass
  CoarseArgs coarse_;      // the means that the caller passes, and memory for the others
  float2* stats_ = nullptr;
  ConstTensor coarse_out_;  // passed by the caller or computed
  Lut selected_;
  ConstLut lut_;
  std::unique_ptr<FineRun> fine_;
  Tensor fine_out_;
};

}  // namespace

Status attention_forward(const Context& context, const AttentionArgs& args) {
  return Forward(context, args).run();
}

}  // namespace vsa::cuda
