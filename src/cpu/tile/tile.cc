// tile, untile: moves rows between the plan's order and tile order. Host-only.
#include <cstring>

#include "src/core/element.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/padding.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {
namespace {

const std::byte* row_of(const ConstTensor& x, int64_t b, int64_t h, int64_t s) {
  return static_cast<const std::byte*>(x.data) + row_offset(x, b, h, s) * size_bytes(x.dtype);
}
std::byte* row_of(const Tensor& x, int64_t b, int64_t h, int64_t s) {
  return static_cast<std::byte*>(x.data) + row_offset(x, b, h, s) * size_bytes(x.dtype);
}

}  // namespace

Status tile(const Context& context, const TileArgs& args) {
  const TilePlan& plan = *args.plan;
  const auto row_bytes = static_cast<size_t>(args.x.shape[3] * size_bytes(args.x.dtype));
  parallel_for_heads(context, args.x, plan.num_tiles(), [&](int64_t b, int64_t h, int64_t t, int) {
    int64_t slot = t * plan.tile_tokens();
    for (const int32_t token : plan.tokens(t)) {
      std::memcpy(row_of(args.tiled, b, h, slot++), row_of(args.x, b, h, token), row_bytes);
    }
    // All bits 0 is 0.0 in every dtype.
    for (; slot < (t + 1) * plan.tile_tokens(); ++slot) {
      std::memset(row_of(args.tiled, b, h, slot), 0, row_bytes);
    }
  });
  return {};
}

Status untile(const Context& context, const UntileArgs& args) {
  const TilePlan& plan = *args.plan;
  const auto row_bytes = static_cast<size_t>(args.x.shape[3] * size_bytes(args.x.dtype));
  zero_padding(args.x, plan);
  parallel_for_heads(
      context, args.tiled, plan.num_tiles(), [&](int64_t b, int64_t h, int64_t t, int) {
        int64_t slot = t * plan.tile_tokens();
        for (const int32_t token : plan.tokens(t)) {
          std::memcpy(row_of(args.x, b, h, token), row_of(args.tiled, b, h, slot++), row_bytes);
        }
      });
  return {};
}

}  // namespace vsa::cpu
