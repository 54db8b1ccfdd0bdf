// What backward knows of the queries of a block beside q and dout. Host and device.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/plan/block.h"
#include "src/cuda/plan/plan.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/rows.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// In the order of the block's rows, so that one copy brings them; rows without a token, and
/// queries without a key, have kZeroExponent: their probabilities are 0.
struct alignas(16) QueryStatistics {
  static constexpr float kZeroExponent = kMinusInfinity;
  float minus_lse_log2[kBlockTokens];  // -lse * log2(e)
  float delta[kBlockTokens];           // sum over d of fine_out * dout

  /// Of a block without a token.
  VSA_HOST_DEVICE static constexpr QueryStatistics of_nothing() {
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

/// Enqueues the gathering from the caller's order.
Status run_query_statistics(const CallSite& at, const QueryStatisticsParams& params);

}  // namespace vsa::cuda
