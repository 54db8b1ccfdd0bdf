// The coarse kernels and their parameters. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/cuda/support/call.h"
#include "src/cuda/support/rows.h"
#include "vsa/stages.h"
#include "vsa/status.h"

namespace vsa::cuda {

struct CoarseParams {
  ConstRows q, k, v;        // f32 [B, H, Nq, D], [B, H_kv, Nk, D]
  const int32_t* kv_len;    // [Nk] valid tokens of each kv tile
  Rows scores;              // f32 [B, H, Nq, Nk]
  Rows out;                 // f32 [B, H, Nq, D]; data may be null
  float2* stats = nullptr;  // memory from take_coarse_stats; null if out.data is null
  int32_t num_heads = 0;
  int32_t group_size = 0;
  int32_t num_q_tiles = 0;
  int32_t num_kv_tiles = 0;
  int32_t head_dim = 0;  // 64 or 128
  float scale = 0.0F;
  CoarseRounding rounding = CoarseRounding::kNone;
};

/// Whether every row of q, k, v and scores begins at a multiple of 16 bytes.
inline bool is_aligned(const CoarseParams& p) {
  const auto are = [](const auto& x) {
    return (reinterpret_cast<uintptr_t>(x.data) |
            static_cast<uint64_t>(x.batch | x.head | x.seq) * 4) %
               16 ==
           0;
  };
  return are(p.q) && are(p.k) && are(p.v) && are(p.scores);
}

inline constexpr int kCoarseColumns = 64;  ///< of the output of a CTA, and of one element of stats

/// The pitch of scores in elements, with which rows begin at multiples of 16 bytes.
inline int64_t coarse_pitch(int64_t num_kv_tiles) { return (num_kv_tiles + 3) / 4 * 4; }
/// Takes memory for scores {batch, num_heads, num_q_tiles, num_kv_tiles} with that pitch.
Tensor take_coarse_scores(Carver& workspace, const Dims& dims);
/// Takes memory for the statistics that coarse_scores_kernel writes and coarse_out_kernel reads:
/// the maximum and the sum of exponentials of every row in every 64 columns. It is 1/32 of the
/// scores, whose extents are `dims`.
float2* take_coarse_stats(Carver& workspace, const Dims& dims);

/// @param args     `coarse_scores` is set; without `coarse_out` only scores are computed
/// @param kv_len   [Nk] on the device: valid tokens of each kv tile
/// @param stats    memory from take_coarse_stats
CoarseParams coarse_params(const CoarseArgs& args, const int32_t* kv_len, float2* stats);

/// Enqueues the kernel that writes scores and stats.
Status run_coarse_scores(const CallSite& at, const CoarseParams& params, int64_t batch);
/// Enqueues the kernel that writes out from scores and stats.
Status run_coarse_out(const CallSite& at, const CoarseParams& params, int64_t batch);
/// Enqueues both, or only the first one if out.data is null.
Status run_coarse(const CallSite& at, const CoarseParams& params, int64_t batch);

}  // namespace vsa::cuda
