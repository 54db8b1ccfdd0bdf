// pool: the mean of every tile over its valid tokens. Host-only.
//
//   pooled_t = (1 / tile_len_t) sum_{s in t} x_s        dx_s = dpooled_t / tile_len_t
#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {

Status pool(const Context& /*context*/, const PoolArgs& args) {
  const TilePlan& plan = *args.plan;
  for (int64_t b = 0; b < args.x.shape[0]; ++b) {
    for (int64_t h = 0; h < args.x.shape[1]; ++h) {
      for (int64_t t = 0; t < plan.num_tiles(); ++t) {
        Row mean(static_cast<size_t>(args.x.shape[3]), 0.0);
        for (const int32_t token : plan.tokens(t)) {
          add_scaled(mean, 1.0, load_row(args.x, b, h, token));
        }
        if (plan.tile_len(t) > 0) {
          for (double& m : mean) m /= plan.tile_len(t);
        }
        store_row(args.pooled, b, h, t, mean);
      }
    }
  }
  return {};
}

Status pool_backward(const Context& /*context*/, const PoolBackwardArgs& args) {
  const TilePlan& plan = *args.plan;
  fill(args.dx, 0.0);
  for (int64_t b = 0; b < args.dx.shape[0]; ++b) {
    for (int64_t h = 0; h < args.dx.shape[1]; ++h) {
      for (int64_t t = 0; t < plan.num_tiles(); ++t) {
        Row share = load_row(args.dpooled, b, h, t);
        for (double& g : share) g /= plan.tile_len(t);  // not used if the tile is empty
        for (const int32_t token : plan.tokens(t)) store_row(args.dx, b, h, token, share);
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
