// fine as a stage of its own: every query tile is one thread's work. Host-only.
#include <numbers>
#include <vector>

#include "src/core/lut_row.h"
#include "src/cpu/fine/attend.h"
#include "src/cpu/fine/packed_heads.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/padding.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {

void attend(const PackedKv& kv, float scale, int64_t num_rows, std::span<const int32_t> kv_tiles,
            const FineOutputs& outputs, FineScratch& s) {
  scale_rows(s.q.data(), num_rows * kv.head_dim, scale * std::numbers::log2e_v<float>);
  fine_tile(kv, {.q = s.q.data(), .num_rows = num_rows, .kv_tiles = kv_tiles}, s.work.data(),
            s.out.data(), s.lse.data());
  if (outputs.out.data != nullptr) store_rows(s.out.data(), s.ld, kv.head_dim, outputs.out);
  for (int64_t r = 0; r < outputs.lse.count; ++r) {
    *static_cast<float*>(outputs.lse.at(r)) = s.lse.data()[r];
  }
}

Status fine(const Context& context, const FineArgs& args) {
  const TilePlan& plan = *args.q_plan;
  const int64_t head_dim = args.q.shape[3];
  PackedHeads heads(context, args.k, args.v, *args.kv_plan, {.pooled = false});
  std::vector<FineScratch> scratch;
  for (int i = 0; i < num_threads(context); ++i) {
    scratch.emplace_back(plan, *args.kv_plan, head_dim);
  }
  zero_padding(args.out, plan);
  zero_padding(args.lse, plan);
  heads.for_each_query_tile(
      context, args.q, plan.num_tiles(),
      [&](int64_t n, int64_t b, int64_t h, int64_t i, int thread) {
        FineScratch& s = scratch[static_cast<size_t>(thread)];
        load_rows(tile_rows(args.q, b, h, plan, i), head_dim, s.q.data(), head_dim);
        attend(heads.fine(n), *args.scale, plan.tile_len(i), lut_row(args.lut, b, h, i),
               {tile_rows(args.out, b, h, plan, i), tile_rows(args.lse, b, h, plan, i)}, s);
      });
  return {};
}

}  // namespace vsa::cpu
