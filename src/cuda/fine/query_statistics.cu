// Gathers the lse and delta of every query block from the caller's order into the order of the
// block's rows, for the backward fine kernels.
//
//   lse, delta [batch, heads, tokens] -> [batch * heads, blocks, 64]: -lse * log2(e), delta
//
// One thread for each row of a block, 4 blocks in a CTA; no shared memory.
#include "src/cuda/fine/query_statistics.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda {
namespace {

constexpr int kItemsPerCta = 4;

__global__ void __launch_bounds__(kItemsPerCta* kBlockTokens)
    query_statistics_kernel(const __grid_constant__ QueryStatisticsParams p) {
  const int64_t item = int64_t{blockIdx.x} * kItemsPerCta + threadIdx.x / kBlockTokens;
  if (item >= p.num_items) return;
  const auto row = static_cast<int32_t>(threadIdx.x % kBlockTokens);
  const int32_t num_blocks = p.plan.shape.num_blocks();
  const int64_t head_idx = item / num_blocks;
  const Block block = p.plan.blocks[item % num_blocks];
  float minus_lse_log2 = QueryStatistics::kZeroExponent;
  float delta = 0.0F;
  if (row < block.len()) {
    const int64_t position = position_of(p.plan.shape, block, row);
    const float lse = static_cast<const float*>(
        p.lse.data)[head_idx / p.num_heads * p.lse.batch + head_idx % p.num_heads * p.lse.head +
                    position * p.lse.seq];
    if (lse != QueryStatistics::kZeroExponent) minus_lse_log2 = -lse * kLog2E;
    delta = p.delta[head_idx * p.seq_len + position];
  }
  p.to[item].minus_lse_log2[row] = minus_lse_log2;
  p.to[item].delta[row] = delta;
}

}  // namespace

Status run_query_statistics(const CallSite& at, const QueryStatisticsParams& params) {
  return launch(at, query_statistics_kernel,
                {.grid = dim3(grid_extent(params.num_items, kItemsPerCta)),
                 .block = dim3(kItemsPerCta * kBlockTokens)},
                params);
}

}  // namespace vsa::cuda
