// The stage coarse_backward, and CoarseGradients, which the whole operator's backward uses too.
// Host-only.
#include "src/cuda/coarse/coarse_gradients.h"

#include <algorithm>

#include "src/cuda/plan/plan.h"
#include "src/cuda/stages.h"

namespace vsa::cuda {
namespace {

constexpr int64_t kMaxScoreBytes = int64_t{64} << 20;  // scores and their gradients of a chunk

/// The part of a tensor from batch item b and head h on, with num_heads heads.
template <class AnyTensor>
AnyTensor part(AnyTensor t, int64_t b, int64_t h, int64_t num_heads) {
  if (t.empty()) return t;
  using Floats = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(t.data)>>,
                                    const float*, float*>;
  t.data = static_cast<Floats>(t.data) + b * t.stride[0] + h * t.stride[1];
  t.shape[1] = num_heads;
  return t;
}

}  // namespace

/// The heads of a call that are computed at a time.
struct CoarseGradients::Chunk {
  CoarseBackwardParams params;
  int64_t batch;
  bool is_all;
};

CoarseGradients::CoarseGradients(Carver& workspace, const ConstTensor& q, const ConstTensor& k,
                                 bool backward) {
  const int64_t batch = q.shape[0];
  const int64_t num_q_tiles = q.shape[2];
  const int64_t num_kv_tiles = k.shape[2];
  const int64_t kv_heads = k.shape[1];
  const int64_t group_size = q.shape[1] / kv_heads;
  const int64_t kv_head_bytes = product(group_size, num_q_tiles, coarse_pitch(num_kv_tiles),
                                        int64_t{sizeof(float)}, int64_t{backward ? 2 : 1});
  const int64_t most = std::max<int64_t>(1, kMaxScoreBytes / kv_head_bytes);
  batch_of_chunk_ = batch * kv_heads <= most ? batch : 1;
  kv_heads_of_chunk_ = std::min(kv_heads, most);
  const int64_t heads = kv_heads_of_chunk_ * group_size;
  const Dims scores{batch_of_chunk_, heads, num_q_tiles, num_kv_tiles};
  scores_ = take_coarse_scores(workspace, scores);
  stats_ = take_coarse_stats(workspace, scores);
  if (!backward) return;
  dscores_ = take_coarse_scores(workspace, scores);
  row_stats_ = workspace.take<CoarseRowStats>(batch_of_chunk_, heads, num_q_tiles);
}

template <class Run>
Status CoarseGradients::for_each_chunk(const CoarseBackwardArgs& args, const Tensor& out,
                                       const int32_t* kv_len, const Run& run) const {
  const int64_t batch = args.q_pooled.shape[0];
  const int64_t kv_heads = args.k_pooled.shape[1];
  const int64_t group_size = args.q_pooled.shape[1] / kv_heads;
  for (int64_t b = 0; b < batch; b += batch_of_chunk_) {
    for (int64_t kv = 0; kv < kv_heads; kv += kv_heads_of_chunk_) {
      const int64_t num_kv = std::min(kv_heads_of_chunk_, kv_heads - kv);
      const auto of_q = [&](const auto& t) {
        return part(t, b, kv * group_size, num_kv * group_size);
      };
      const auto of_kv = [&](const auto& t) { return part(t, b, kv, num_kv); };
      const CoarseArgs forward{.q_pooled = of_q(args.q_pooled),
                               .k_pooled = of_kv(args.k_pooled),
                               .v_pooled = of_kv(args.v_pooled),
                               .kv_plan = args.kv_plan,
                               .scale = args.scale,
                               .coarse_scores = scores_,
                               .coarse_out = of_q(out)};
      VSA_TRY(run(Chunk{.params = {.forward = coarse_params(forward, kv_len, stats_),
                                   .dout = rows_of(of_q(args.dcoarse_out)),
                                   .dscores = rows_of(dscores_),
                                   .row_stats = row_stats_,
                                   .dq = rows_of(of_q(args.dq_pooled)),
                                   .dk = rows_of(of_kv(args.dk_pooled)),
                                   .dv = rows_of(of_kv(args.dv_pooled))},
                        .batch = batch_of_chunk_,
                        .is_all = batch_of_chunk_ == batch && kv_heads_of_chunk_ == kv_heads}));
    }
  }
  return {};
}

Status CoarseGradients::forward(const CallSite& at, const CoarseBackwardArgs& args,
                                const Tensor& out, const int32_t* kv_len) const {
  return for_each_chunk(args, out, kv_len, [&](const Chunk& chunk) {
    return run_coarse(at, chunk.params.forward, chunk.batch);
  });
}

Status CoarseGradients::backward(const CallSite& at, const CoarseBackwardArgs& args,
                                 const Tensor& out, const int32_t* kv_len) const {
  return for_each_chunk(args, out, kv_len, [&](const Chunk& chunk) -> Status {
    if (!chunk.is_all) {
      CoarseParams scores_only = chunk.params.forward;
      scores_only.out = {};
      scores_only.stats = nullptr;
      VSA_TRY(run_coarse(at, scores_only, chunk.batch));
    }
    return run_coarse_backward(at, chunk.params, chunk.batch);
  });
}

Status coarse_backward(const Context& context, const CoarseBackwardArgs& args) {
  const auto& [batch, num_heads, num_q_tiles, head_dim] = args.q_pooled.shape;
  Call call("coarse_backward", context);
  const PlanTables plans(call.operation(), call.workspace, args.kv_plan);
  const CoarseGradients gradients(call.workspace, args.q_pooled, args.k_pooled, true);
  const Tensor out = call.workspace.take_f32({batch, num_heads, num_q_tiles, head_dim});
  return run(call, plans, args, [&](const CallSite& at) -> Status {
    const int32_t* kv_len = plans.q().tile_len;
    VSA_TRY(gradients.forward(at, args, out, kv_len));
    return gradients.backward(at, args, out, kv_len);
  });
}

}  // namespace vsa::cuda
