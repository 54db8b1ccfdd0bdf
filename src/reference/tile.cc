// tile, untile: moves tokens between the plan's order and tile order. Host-only.
#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {

Status tile(const Context& /*context*/, const TileArgs& args) {
  const TilePlan& plan = *args.plan;
  fill(args.tiled, 0.0);
  for (int64_t b = 0; b < args.x.shape[0]; ++b) {
    for (int64_t h = 0; h < args.x.shape[1]; ++h) {
      for (int64_t t = 0; t < plan.num_tiles(); ++t) {
        int64_t slot = t * plan.tile_tokens();
        for (const int32_t token : plan.tokens(t)) {
          store_row(args.tiled, b, h, slot++, load_row(args.x, b, h, token));
        }
      }
    }
  }
  return {};
}

Status untile(const Context& /*context*/, const UntileArgs& args) {
  const TilePlan& plan = *args.plan;
  fill(args.x, 0.0);
  for (int64_t b = 0; b < args.x.shape[0]; ++b) {
    for (int64_t h = 0; h < args.x.shape[1]; ++h) {
      for (int64_t t = 0; t < plan.num_tiles(); ++t) {
        int64_t slot = t * plan.tile_tokens();
        for (const int32_t token : plan.tokens(t)) {
          store_row(args.x, b, h, token, load_row(args.tiled, b, h, slot++));
        }
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
