// pool: means of tiles, and their gradient. Host-only.
#include <algorithm>

#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/padding.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {

Status pool(const Context& context, const PoolArgs& args) {
  const TilePlan& plan = *args.plan;
  const int64_t head_dim = args.x.shape[3];
  const int64_t tile_floats = plan.tile_tokens() * head_dim;
  const FloatBuffer scratch(num_threads(context) * tile_floats);
  parallel_for_heads(
      context, args.x, plan.num_tiles(), [&](int64_t b, int64_t h, int64_t t, int thread) {
        float* rows = scratch.data() + thread * tile_floats;
        load_rows(tile_rows(args.x, b, h, plan, t), head_dim, rows, head_dim);
        mean_of_rows(rows, head_dim, plan.tile_len(t), head_dim, f32_row(args.pooled, b, h, t));
      });
  return {};
}

Status pool_backward(const Context& context, const PoolBackwardArgs& args) {
  const TilePlan& plan = *args.plan;
  const int64_t head_dim = args.dx.shape[3];
  const FloatBuffer scratch(num_threads(context) * head_dim);
  zero_padding(args.dx, plan);
  parallel_for_heads(
      context, args.dx, plan.num_tiles(), [&](int64_t b, int64_t h, int64_t t, int thread) {
        const float len = static_cast<float>(plan.tile_len(t));
        const float* from = f32_row(args.dpooled, b, h, t);
        float* share = scratch.data() + thread * head_dim;
        std::transform(from, from + head_dim, share, [len](float g) { return g / len; });
        store_rows(share, 0, head_dim, tile_rows(args.dx, b, h, plan, t));
      });
  return {};
}

}  // namespace vsa::cpu
