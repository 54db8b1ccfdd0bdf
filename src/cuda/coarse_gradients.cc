#include "src/cuda/coarse_gradients.h"

#include <algorithm>

namespace vsa::cuda {
namespace {

constexpr int64_t kMostScoreBytes = int64_t{64} << 20;  // scores and their gradients of a chunk

template <class AnyRows>
AnyRows from(AnyRows rows, int64_t b, int64_t h) {
  if (rows.data == nullptr) return rows;
  using Floats = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(rows.data)>>,
                                    const float*, float*>;
  rows.data = static_cast<Floats>(rows.data) + b * rows.batch + h * rows.head;
  return rows;
}

}  // namespace

/// Some heads of a call.
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
  const int64_t most = std::max<int64_t>(1, kMostScoreBytes / kv_head_bytes);
  batch_of_chunk_ = batch * kv_heads <= most ? batch : 1;
  kv_heads_of_chunk_ = std::min(kv_heads, most);
  const int64_t heads = kv_heads_of_chunk_ * group_size;
  const Dims scores{batch_of_chunk_, heads, num_q_tiles, num_kv_tiles};
  scores_ = take_coarse_scores(workspace, scores);
  stats_ = take_coarse_stats(workspace, batch_of_chunk_ * heads * num_q_tiles, num_kv_tiles);
  if (!backward) return;
  dscores_ = take_coarse_scores(workspace, scores);
  row_stats_ = workspace.take<CoarseRowStats>(batch_of_chunk_, heads, num_q_tiles);
}

template <class Run>
Status CoarseGradients::for_each_chunk(const CoarseTensors& tensors, const int32_t* kv_len,
                                       float scale, const Run& run) const {
  const auto& [batch, num_heads, num_q_tiles, head_dim] = tensors.q.shape;
  const int64_t kv_heads = tensors.k.shape[1];
  const int64_t group_size = num_heads / kv_heads;
  for (int64_t b = 0; b < batch; b += batch_of_chunk_) {
    for (int64_t kv = 0; kv < kv_heads; kv += kv_heads_of_chunk_) {
      const int64_t h = kv * group_size;
      const int64_t heads = std::min(kv_heads_of_chunk_, kv_heads - kv) * group_size;
      const CoarseParams forward{.q = from(rows_of(tensors.q), b, h),
                                 .k = from(rows_of(tensors.k), b, kv),
                                 .v = from(rows_of(tensors.v), b, kv),
                                 .kv_len = kv_len,
                                 .scores = rows_of(scores_),
                                 .out = from(rows_of(tensors.out), b, h),
                                 .stats = stats_,
                                 .num_heads = static_cast<int32_t>(heads),
                                 .group_size = static_cast<int32_t>(group_size),
                                 .num_q_tiles = static_cast<int32_t>(num_q_tiles),
                                 .num_kv_tiles = static_cast<int32_t>(tensors.k.shape[2]),
                                 .head_dim = static_cast<int32_t>(head_dim),
                                 .scale = scale};
      VSA_TRY(run(Chunk{.params = {.forward = forward,
                                   .dout = from(rows_of(tensors.dout), b, h),
                                   .dscores = rows_of(dscores_),
                                   .row_stats = row_stats_,
                                   .dq = from(rows_of(tensors.dq), b, h),
                                   .dk = from(rows_of(tensors.dk), b, kv),
                                   .dv = from(rows_of(tensors.dv), b, kv)},
                        .batch = batch_of_chunk_,
                        .is_all = batch_of_chunk_ == batch && kv_heads_of_chunk_ == kv_heads}));
    }
  }
  return {};
}

Status CoarseGradients::forward(std::string_view operation, const CoarseTensors& tensors,
                                const int32_t* kv_len, float scale, cudaStream_t stream) const {
  return for_each_chunk(tensors, kv_len, scale, [&](const Chunk& chunk) {
    return run_coarse(operation, chunk.params.forward, chunk.batch, stream);
  });
}

Status CoarseGradients::backward(std::string_view operation, const CoarseTensors& tensors,
                                 const int32_t* kv_len, float scale, cudaStream_t stream) const {
  return for_each_chunk(tensors, kv_len, scale, [&](const Chunk& chunk) -> Status {
    if (!chunk.is_all) {
      CoarseParams scores_only = chunk.params.forward;
      scores_only.out = {};
      scores_only.stats = nullptr;
      VSA_TRY(run_coarse(operation, scores_only, chunk.batch, stream));
    }
    return run_coarse_backward(operation, chunk.params, chunk.batch, stream);
  });
}

}  // namespace vsa::cuda
