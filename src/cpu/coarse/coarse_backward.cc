// The coarse stage's gradients: those of the fine stage, over the means of tiles. Host-only.
#include "src/cpu/coarse/coarse_backward.h"

#include <algorithm>
#include <vector>

#include "src/cpu/stages.h"

namespace vsa::cpu {
namespace {

// Means are grouped like tokens of the usual tile, which the kernels are best at.
constexpr int64_t kGroup = 64;

TilePlan plan_of_means(int64_t num_means) {
  return TilePlan::grid({.f = 1, .h = 1, .w = num_means}, {.f = 1, .h = 1, .w = kGroup}).value();
}

/// The means of tiles without tokens are padding. A tile plan has padding only at a tile's end, so
/// then every mean is a tile of its own.
TilePlan plan_of_kv_means(const TilePlan& kv_plan) {
  std::vector<int32_t> is_valid(static_cast<size_t>(kv_plan.num_tiles()));
  for (int64_t j = 0; j < kv_plan.num_tiles(); ++j) {
    is_valid[static_cast<size_t>(j)] = kv_plan.tile_len(j) > 0 ? 1 : 0;
  }
  if (std::ranges::find(is_valid, 0) == is_valid.end()) {
    return plan_of_means(kv_plan.num_tiles());
  }
  return TilePlan::tiled(is_valid, 1).value();
}

}  // namespace

CoarseAsFine::CoarseAsFine(const Context& context, const CoarseBackwardArgs& args)
    : context_(context),
      args_(args),
      q_plan_(plan_of_means(args.q_pooled.shape[2])),
      kv_plan_(plan_of_kv_means(*args.kv_plan)),
      lut_(LutBuffer::dense({.batch = args.q_pooled.shape[0],
                             .num_heads = args.q_pooled.shape[1],
                             .num_q_tiles = q_plan_.num_tiles(),
                             .pitch = kv_plan_.num_tiles()})),
      out_(args.q_pooled, args.q_pooled.shape[2], args.q_pooled.shape[3]),
      lse_(args.q_pooled, args.q_pooled.shape[2], 1) {
  // Cannot fail: `fine` of this backend either computes or throws.
  static_cast<void>(cpu::fine(context, {.q = args.q_pooled,
                                        .k = args.k_pooled,
                                        .v = args.v_pooled,
                                        .q_plan = &q_plan_,
                                        .kv_plan = &kv_plan_,
                                        .lut = lut_.view(),
                                        .scale = args.scale,
                                        .out = out_.view(),
                                        .lse = lse_.view()}));
}

Status CoarseAsFine::backward() const {
  return cpu::fine_backward(context_, {.q = args_.q_pooled,
                                       .k = args_.k_pooled,
                                       .v = args_.v_pooled,
                                       .q_plan = &q_plan_,
                                       .kv_plan = &kv_plan_,
                                       .lut = lut_.view(),
                                       .scale = args_.scale,
                                       .out = out_.view(),
                                       .lse = lse_.view(),
                                       .dout = args_.dcoarse_out,
                                       .dq = args_.dq_pooled,
                                       .dk = args_.dk_pooled,
                                       .dv = args_.dv_pooled});
}

Status coarse_backward(const Context& context, const CoarseBackwardArgs& args) {
  return CoarseAsFine(context, args).backward();
}

}  // namespace vsa::cpu
