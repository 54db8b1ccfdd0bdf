// Statistics of the queries of a block that the backward fine kernels need. Host and device.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/plan/block.h"
#include "src/cuda/plan/plan.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/rows.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// The statistics of one block, in the order of its rows, so that a bulk copy loads them. Rows
/// without a token, and queries without a key, have kZeroExponent, which makes their probabilities
/// 0.
struct alignas(16) QueryStatistics {
  static constexpr float kZeroExponent = kMinusInfinity;
  float minus_lse_log2[kBlockTokens];  // -lse * log2(e)
  float delta[kBlockTokens];           // sum over d of fine_out * dout

  /// The statistics of a block without tokens.
  VSA_HOST_DEVICE static constexpr QueryStatistics empty() {
    QueryStatistics statistics{};
    for (float& x : statistics.minus_lse_log2) x = kZeroExponent;
    return statistics;
  }
};

struct QueryStatisticsParams {
  ConstRows lse;       // [B, H, S, 1] f32, natural log
  const float* delta;  // [B, H, S] f32 contiguous
  int64_t seq_len;
  PlanTable plan;
  int32_t num_heads;
  int64_t num_items;  // batch * num_heads * blocks
  QueryStatistics* to;
};

/// Enqueues the kernel that gathers the statistics of all blocks.
Status run_query_statistics(const CallSite& at, const QueryStatisticsParams& params);

}  // namespace vsa::cuda
