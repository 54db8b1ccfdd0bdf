// The whole operator, backward. Host-only.
//
//   pool q, k, v -> coarse forward -> coarse_out
//   combine_backward -> dcoarse_out, dgate_coarse, dgate_fine, dfine_out, delta
//   coarse_backward -> dq_pooled, dk_pooled, dv_pooled
//   fine_backward, which adds each token's share of those where it stores its own -> dq, dk, dv
#include <optional>

#include "src/cuda/coarse_gradients.h"
#include "src/cuda/combine_backward.h"
#include "src/cuda/cuda.h"
#include "src/cuda/device.h"
#include "src/cuda/fine_backward.h"
#include "src/cuda/launch.h"
#include "src/cuda/pool.h"

namespace vsa::cuda {
namespace {

constexpr std::string_view kOperation = "attention_backward";

const float* floats(const Tensor& t) { return static_cast<const float*>(t.data); }

/// Which stages a call needs.
struct Branches {
  explicit Branches(const AttentionBackwardArgs& args)
      : fine(!args.gate_fine.is_zero()),
        pooled_gradients(!args.gate_coarse.is_zero()),
        coarse(pooled_gradients || !args.dgate_coarse.empty()),
        gated_dout(fine && (args.gate_fine.is_tensor() || args.gate_fine.as_constant() != 1.0F)) {}
  bool fine;
  bool pooled_gradients;  ///< through the coarse softmax to q, k and v
  bool coarse;            ///< coarse_out is needed
  bool gated_dout;        ///< gate_fine * dout is another tensor than dout
};

/// One call: memory first, then launches.
class Backward {
 public:
  Backward(const Context& context, const AttentionBackwardArgs& args)
      : args_(args),
        stream_(stream_of(context)),
        branches_(args),
        workspace_(context),
        plans_(kOperation, workspace_, args.q_plan, args.kv_plan) {
    if (!plans_.status().ok()) return;
    const auto& [batch, num_heads, seq_len, head_dim] = args.q.shape;
    if (branches_.coarse) {
      coarse_.q = q_pooled_ = means(args.q, *args.q_plan);
      coarse_.k = k_pooled_ = means(args.k, *args.kv_plan);
      coarse_.v = v_pooled_ = means(args.v, *args.kv_plan);
      coarse_.out = means(args.q, *args.q_plan);
      coarse_gradients_.emplace(workspace_, coarse_.q, coarse_.k, branches_.pooled_gradients);
    }
    if (branches_.pooled_gradients) {
      coarse_.dout = dcoarse_out_ = means(args.q, *args.q_plan);
      coarse_.dq = coarse_.out;  // which nobody needs by then
      coarse_.dk = means(args.k, *args.kv_plan);
      coarse_.dv = v_pooled_;  // nor these
    }
    if (!branches_.fine) return;
    dfine_out_ = args.dout;
    if (branches_.gated_dout) {
      gated_dout_ = Tensor::bshd(workspace_.take<uint16_t>(batch, num_heads, seq_len, head_dim),
                                 args.q.dtype, {batch, num_heads, seq_len, head_dim});
      dfine_out_ = gated_dout_;
    }
    delta_ = Tensor::bhsd(workspace_.take<float>(batch, num_heads, seq_len), DType::kF32,
                          {batch, num_heads, seq_len, 1});
    lut_t_.emplace(workspace_, args.lut.dims, args.kv_plan->num_tiles());
    scratch_ = FineBackwardScratch(workspace_, plans_, args.q.shape[0] * args.q.shape[1]);
  }

  Status run() {
    VSA_TRY(plans_.status());
    if (workspace_.answers_query()) return {};
    VSA_TRY(workspace_.status(kOperation));
    const DeviceScope device(kOperation, {{"q", args_.q},
                                          {"k", args_.k},
                                          {"v", args_.v},
                                          {"gate_coarse", args_.gate_coarse},
                                          {"gate_fine", args_.gate_fine},
                                          {"lse", args_.lse},
                                          {"fine_out", args_.fine_out},
                                          {"dout", args_.dout},
                                          {"dq", args_.dq},
                                          {"dk", args_.dk},
                                          {"dv", args_.dv},
                                          {"dgate_coarse", args_.dgate_coarse},
                                          {"dgate_fine", args_.dgate_fine},
                                          {"lut", args_.lut.index},
                                          {"lut", args_.lut.count},
                                          {"workspace", workspace_.data()}});
    VSA_TRY(device.status());
    VSA_TRY(plans_.build(stream_));
    const int32_t* kv_len = plans_.kv().tile_len;
    if (branches_.coarse) {
      VSA_TRY(pool());
      VSA_TRY(coarse_gradients_->forward(kOperation, coarse_, kv_len, *args_.scale, stream_));
    }
    VSA_TRY(combine());
    if (branches_.pooled_gradients) {
      VSA_TRY(coarse_gradients_->backward(kOperation, coarse_, kv_len, *args_.scale, stream_));
    }
    return branches_.fine ? fine(device.num_sms()) : pooled_only();
  }

 private:
  Tensor means(const ConstTensor& x, const TilePlan& plan) {
    const Dims dims{x.shape[0], x.shape[1], plan.num_tiles(), x.shape[3]};
    return Tensor::bhsd(
        workspace_.take<float>(dims.batch, dims.num_heads, dims.seq_len, dims.head_dim),
        DType::kF32, dims);
  }

  Status pool() {
    PoolParams params;
    params.add(args_.q, plans_.q(), q_pooled_);
    params.add(args_.k, plans_.kv(), k_pooled_);
    params.add(args_.v, plans_.kv(), v_pooled_);
    return run_pool(kOperation, params, args_.q.dtype, args_.q.shape[0], stream_);
  }

  Status combine() {
    return run_combine_backward(kOperation,
                                {.dout = rows_of(args_.dout),
                                 .fine_out = rows_of(args_.fine_out),
                                 .coarse_out = rows_of(ConstTensor(coarse_.out)),
                                 .gate_fine = gate_rows(args_.gate_fine),
                                 .gate_coarse = gate_rows(args_.gate_coarse),
                                 .plan = plans_.q(),
                                 .dfine_out = rows_of(gated_dout_),
                                 .dgate_fine = rows_of(args_.dgate_fine),
                                 .dgate_coarse = rows_of(args_.dgate_coarse),
                                 .dcoarse_out = rows_of(dcoarse_out_),
                                 .delta = rows_of(delta_),
                                 .num_heads = narrow(args_.q.shape[1]),
                                 .head_dim = narrow(args_.q.shape[3])},
                                args_.q.dtype, args_.q.shape[0], stream_);
  }

  Status fine(int num_sms) {
    VSA_TRY(lut_t_->build(kOperation, args_.lut, stream_));
    return run_fine_backward(
        kOperation,
        {.q = args_.q,
         .k = args_.k,
         .v = args_.v,
         .dout = dfine_out_,
         .lse = args_.lse,
         .delta = floats(delta_),
         .scale = *args_.scale,
         .lut = args_.lut,
         .lut_t = lut_t_->view(),
         .scratch = scratch_,
         .dq_pooled = branches_.pooled_gradients ? floats(coarse_.dq) : nullptr,
         .dk_pooled = branches_.pooled_gradients ? floats(coarse_.dk) : nullptr,
         .dv_pooled = branches_.pooled_gradients ? floats(coarse_.dv) : nullptr,
         .dq = args_.dq,
         .dk = args_.dk,
         .dv = args_.dv},
        plans_, num_sms, stream_);
  }

  /// Gradients without the fine stage: shares of the means, or 0.
  Status pooled_only() {
    const auto store = [&](const Tensor& dpooled, const PlanTable& plan, const Tensor& dx) {
      const bool is_zero = !branches_.pooled_gradients;
      return run_pool_backward(kOperation,
                               {.dpooled = is_zero ? ConstRows{} : rows_of(ConstTensor(dpooled)),
                                .plan = plan,
                                .dx = rows_of(dx),
                                .num_heads = narrow(dx.shape[1]),
                                .head_dim = narrow(dx.shape[3])},
                               dx.dtype, dx.shape[0], stream_);
    };
    VSA_TRY(store(coarse_.dq, plans_.q(), args_.dq));
    VSA_TRY(store(coarse_.dk, plans_.kv(), args_.dk));
    return store(coarse_.dv, plans_.kv(), args_.dv);
  }

  const AttentionBackwardArgs& args_;
  const cudaStream_t stream_;
  const Branches branches_;
  Carver workspace_;
  PlanTables plans_;
  CoarseTensors coarse_;
  std::optional<CoarseGradients> coarse_gradients_;
  std::optional<TransposedLut> lut_t_;
  Tensor q_pooled_, k_pooled_, v_pooled_, dcoarse_out_;
  Tensor gated_dout_, delta_;
  ConstTensor dfine_out_;
  FineBackwardScratch scratch_;
};

}  // namespace

Status attention_backward(const Context& context, const AttentionBackwardArgs& args) {
  return Backward(context, args).run();
}

}  // namespace vsa::cuda
