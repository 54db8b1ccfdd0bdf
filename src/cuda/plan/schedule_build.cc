// Takes the memory of schedules. Host-only.
#include "src/cuda/plan/schedule_build.h"

#include <fmt/format.h>

namespace vsa::cuda {

Schedule::Schedule(Carver& workspace, const PlanTables& plans, const LutDims& dims,
                   PairBy pair_by) {
  const PlanShape& q = plans.q().shape;
  const PlanShape& kv = plans.kv().shape;
  num_pairs_ = (int64_t{q.num_blocks()} + 1) / 2;
  num_items_ = product(dims.batch, dims.num_heads, num_pairs_);
  // Room for all blocks of two rows of the table, or of one row where both blocks of a pair are of
  // one tile. The contents of the table are not checked on the device; this suffices for any of
  // them.
  const int64_t rows = q.blocks_per_tile % 2 == 0 ? 1 : 2;
  entry_pitch_ = product(rows, dims.pitch, kv.blocks_per_tile);
  heads_ = workspace.take<ScheduleHead>(num_items_);
  queue_head_ = workspace.take<int32_t>(1);
  entries_ = workspace.take<uint32_t>(num_items_, entry_pitch_);
  matches_pairs_ = pair_by == PairBy::kSharedTiles && q.blocks_per_tile == 1 &&
                   can_match_pairs(kv.num_tiles, kv.num_blocks());
}

Status Schedule::status(std::string_view operation) const {
  // The forward fine kernel counts halves in 32 bits, two for each pair, and the counter passes the
  // last one by up to two rounds of units.
  constexpr int64_t kMaxItems = int64_t{1} << 29;
  if (num_items_ < kMaxItems) return {};
  return unsupported(fmt::format(
      "[{}] q: expected fewer than 2^29 pairs of query blocks on the cuda backend, got {}; split "
      "the batch",
      operation, num_items_));
}

}  // namespace vsa::cuda
