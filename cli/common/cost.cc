// FLOPs and pairs of tokens of an attention. Host-only.
#include "cli/common/cost.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace vsa::cli {

double pair_flops(double num_pairs, int64_t head_dim) {
  return 4.0 * num_pairs * static_cast<double>(head_dim);
}

PairRange kept_pairs(const TilePlan& q_plan, const TilePlan& kv_plan, int64_t topk) {
  std::vector<double> lens;
  for (int64_t t = 0; t < kv_plan.num_tiles(); ++t) {
    lens.push_back(static_cast<double>(kv_plan.tile_len(t)));
  }
  const auto q_tokens = static_cast<double>(q_plan.num_valid_tokens());
  const auto sum_of_first = [&] { return std::accumulate(lens.begin(), lens.begin() + topk, 0.0); };
  PairRange pairs;
  std::sort(lens.begin(), lens.end());
  pairs.least = q_tokens * sum_of_first();
  std::sort(lens.begin(), lens.end(), std::greater<>());
  pairs.most = q_tokens * sum_of_first();
  pairs.expected = q_tokens * static_cast<double>(topk) *
                   static_cast<double>(kv_plan.num_valid_tokens()) /
                   static_cast<double>(kv_plan.num_tiles());
  return pairs;
}

double kept_pairs(const TilePlan& q_plan, const TilePlan& kv_plan, const ConstLut& lut) {
  double pairs = 0.0;
  const int64_t num_rows = lut.dims.batch * lut.dims.num_heads * lut.dims.num_q_tiles;
  for (int64_t row = 0; row < num_rows; ++row) {
    int64_t keys = 0;
    for (int32_t n = 0; n < lut.count[row]; ++n) {
      keys += kv_plan.tile_len(lut.index[row * lut.dims.pitch + n]);
    }
    pairs += static_cast<double>(keys) *
             static_cast<double>(q_plan.tile_len(row % lut.dims.num_q_tiles));
  }
  return pairs;
}

}  // namespace vsa::cli
