// The whole operator, forward: plans, pool, coarse, select, schedule, fine with combine. Host-only.
#include <optional>

#include "src/cuda/coarse.h"
#include "src/cuda/combine.h"
#include "src/cuda/cuda.h"
#include "src/cuda/device.h"
#include "src/cuda/fine.h"
#include "src/cuda/launch.h"
#include "src/cuda/pool.h"
#include "src/cuda/select.h"

namespace vsa::cuda {
namespace {

constexpr std::string_view kOperation = "attention_forward";

/// Which stages a call needs.
struct Branches {
  explicit Branches(const AttentionArgs& args)
      : fine(!args.gate_fine.is_zero() || !args.fine_out.empty() || !args.lse.empty()),
        coarse_out(!args.gate_coarse.is_zero()),
        select(args.lut.empty() && (fine || !args.lut_out.empty())),
        fused(fine && !args.gate_fine.is_tensor() && !args.gate_fine.is_zero() &&
              args.fine_out.empty()) {}
  bool fine, coarse_out, select;
  bool fused;  ///< combine happens in the fine kernel
  bool coarse() const { return coarse_out || select; }
};

/// One call: memory first, then launches.
class Forward {
 public:
  Forward(const Context& context, const AttentionArgs& args)
      : args_(args),
        stream_(stream_of(context)),
        branches_(args),
        workspace_(context),
        plans_(kOperation, workspace_, args.q_plan, args.kv_plan),
        rules_(workspace_, args.select, args.q_plan->num_tiles(), args.kv_plan->num_tiles()) {
    if (!plans_.status().ok()) return;
    const auto& [batch, num_heads, seq_len, head_dim] = args.q.shape;
    const int64_t kv_heads = args.k.shape[1];
    const int64_t num_q_tiles = args.q_plan->num_tiles();
    const int64_t num_kv_tiles = args.kv_plan->num_tiles();
    const auto tiles = [&, batch = batch](int64_t heads, int64_t rows, int64_t columns) {
      return Tensor::bhsd(workspace_.take<float>(batch, heads, rows, columns), DType::kF32,
                          {batch, heads, rows, columns});
    };
    if (branches_.coarse()) {
      q_pooled_ = tiles(num_heads, num_q_tiles, head_dim);
      k_pooled_ = tiles(kv_heads, num_kv_tiles, head_dim);
      scores_ = take_coarse_scores(workspace_, {batch, num_heads, num_q_tiles, num_kv_tiles});
    }
    if (branches_.coarse_out) {
      v_pooled_ = tiles(kv_heads, num_kv_tiles, head_dim);
      coarse_out_ = tiles(num_heads, num_q_tiles, head_dim);
      coarse_stats_ = take_coarse_stats(workspace_, batch * num_heads * num_q_tiles, num_kv_tiles);
    }
    lut_ = args.lut;
    if (branches_.select && args.lut_out.empty()) {
      const LutDims dims{batch, num_heads, num_q_tiles, lut_pitch(args.select, num_kv_tiles)};
      const int64_t rows = batch * num_heads * num_q_tiles;
      selected_ = {workspace_.take<int32_t>(rows, dims.pitch), workspace_.take<int32_t>(rows),
                   dims};
    } else if (branches_.select) {
      selected_ = args.lut_out;
    }
    if (branches_.select) lut_ = selected_;
    if (branches_.fine) schedule_.emplace(workspace_, plans_, lut_.dims, head_dim);
    fine_out_ = args.fine_out;
    if (branches_.fine && !branches_.fused && fine_out_.empty()) {
      fine_out_ = Tensor::bshd(workspace_.take<uint16_t>(batch, num_heads, seq_len, head_dim),
                               args.q.dtype, {batch, num_heads, seq_len, head_dim});
    }
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
                                          {"out", args_.out},
                                          {"lse", args_.lse},
                                          {"fine_out", args_.fine_out},
                                          {"lut", args_.lut.index},
                                          {"lut", args_.lut.count},
                                          {"lut_out", args_.lut_out.index},
                                          {"lut_out", args_.lut_out.count},
                                          {"workspace", workspace_.data()}});
    VSA_TRY(device.status());
    VSA_TRY(plans_.build(stream_));
    if (branches_.select) VSA_TRY(rules_.build(kOperation, stream_));
    if (branches_.coarse()) {
      VSA_TRY(pool());
      VSA_TRY(coarse());
    }
    if (branches_.select) VSA_TRY(select());
    if (!args_.lut.empty() && !args_.lut_out.empty()) VSA_TRY(copy_lut());
    if (branches_.fine) VSA_TRY(fine(device.num_sms()));
    return branches_.fused ? Status() : combine();
  }

 private:
  Status pool() {
    PoolParams params;
    params.add(args_.q, plans_.q(), q_pooled_);
    params.add(args_.k, plans_.kv(), k_pooled_);
    if (branches_.coarse_out) params.add(args_.v, plans_.kv(), v_pooled_);
    return run_pool(kOperation, params, args_.q.dtype, args_.q.shape[0], stream_);
  }

  Status coarse() {
    const CoarseParams params{.q = rows_of(ConstTensor(q_pooled_)),
                              .k = rows_of(ConstTensor(k_pooled_)),
                              .v = rows_of(ConstTensor(v_pooled_)),
                              .kv_len = plans_.kv().tile_len,
                              .scores = rows_of(scores_),
                              .out = rows_of(coarse_out_),
                              .stats = coarse_stats_,
                              .num_heads = narrow(args_.q.shape[1]),
                              .group_size = narrow(args_.q.shape[1] / args_.k.shape[1]),
                              .num_q_tiles = narrow(q_pooled_.shape[2]),
                              .num_kv_tiles = narrow(k_pooled_.shape[2]),
                              .head_dim = narrow(args_.q.shape[3]),
                              .scale = *args_.scale,
                              .rounding = args_.rounding};
    return run_coarse(kOperation, params, args_.q.shape[0], stream_);
  }

  Status select() {
    SelectParams params{.scores = rows_of(ConstTensor(scores_)),
                        .lut = selected_,
                        .beside_coarse_out = branches_.coarse_out};
    rules_.apply_to(params);
    return run_select(kOperation, params, stream_);
  }

  Status copy_lut() { return run_copy_lut(kOperation, args_.lut, args_.lut_out, stream_); }

  Status fine(int num_sms) {
    const FineArgs fine{.q = args_.q,
                        .k = args_.k,
                        .v = args_.v,
                        .q_plan = args_.q_plan,
                        .kv_plan = args_.kv_plan,
                        .lut = lut_,
                        .scale = args_.scale,
                        .out = branches_.fused ? args_.out : fine_out_,
                        .lse = args_.lse};
    VSA_TRY(schedule_->build(kOperation, plans_, lut_, stream_));
    FineCombine combine;
    if (branches_.fused) combine.gate_fine = args_.gate_fine.as_constant();
    if (branches_.fused && branches_.coarse_out) {
      combine.coarse_out = static_cast<const float*>(coarse_out_.data);
      combine.gate_coarse = gate_rows(args_.gate_coarse);
    }
    return run_fine_stage({kOperation, num_sms, stream_}, fine, plans_, *schedule_, combine);
  }

  Status combine() {
    const bool has_fine = branches_.fine && !args_.gate_fine.is_zero();
    return run_combine(kOperation,
                       {.fine_out = has_fine ? rows_of(ConstTensor(fine_out_)) : ConstRows{},
                        .coarse_out = static_cast<const float*>(coarse_out_.data),
                        .coarse_batch = coarse_out_.stride[0],
                        .coarse_head = coarse_out_.stride[1],
                        .coarse_seq = coarse_out_.stride[2],
                        .gate_fine = gate_rows(args_.gate_fine),
                        .gate_coarse = gate_rows(args_.gate_coarse),
                        .plan = plans_.q(),
                        .out = rows_of(args_.out),
                        .num_heads = narrow(args_.q.shape[1]),
                        .head_dim = narrow(args_.q.shape[3])},
                       args_.q.dtype, args_.q.shape[0], stream_);
  }

  const AttentionArgs& args_;
  const cudaStream_t stream_;
  const Branches branches_;
  Carver workspace_;
  PlanTables plans_;
  SelectRules rules_;
  std::optional<Schedule> schedule_;
  Tensor q_pooled_, k_pooled_, v_pooled_, scores_, coarse_out_, fine_out_;
  float2* coarse_stats_ = nullptr;
  Lut selected_;
  ConstLut lut_;
};

}  // namespace

Status attention_forward(const Context& context, const AttentionArgs& args) {
  return Forward(context, args).run();
}

}  // namespace vsa::cuda
