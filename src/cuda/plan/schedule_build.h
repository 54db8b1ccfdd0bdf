// Schedules of all pairs of query blocks of a call. Host-only.
#pragma once

#include "src/cuda/plan/plan.h"
#include "src/cuda/plan/schedule.h"
#include "vsa/lut.h"

namespace vsa::cuda {

struct ScheduleParams {
  ConstLut lut;
  PlanTable q, kv;
  ScheduleHead* heads;
  uint32_t* entries;
  int64_t entry_pitch;
  int32_t* queue_head;  // of the forward fine kernel; becomes 0
  uint32_t num_pairs;
  uint32_t num_items;  // below 2^29
  int32_t num_words;   // 32-bit words with a bit for each kv tile; 0: search the table instead
};

/// Whether the bits of 64 lists fit into shared memory, which matching needs.
bool can_match_pairs(int64_t num_kv_tiles, int64_t num_kv_blocks);
/// Enqueues the kernel that writes the schedules of matched pairs.
Status run_schedule_matched(const CallSite& at, const ScheduleParams& params);

/// Which query blocks make a pair.
enum class PairBy {
  kPosition,     ///< neighbours
  kSharedTiles,  ///< matched by common kv tiles, where tiles have one block and can_match_pairs
};

/// The schedules of a call in its workspace: 48 bytes a pair, 4 bytes for each kv block that the
/// pair keeps, and the head of the queue.
class Schedule {
 public:
  /// Takes the memory; `dims` are those of the look-up table.
  Schedule(Carver& workspace, const PlanTables& plans, const LutDims& dims, PairBy pair_by);
  /// Unsupported if there are 2^29 pairs or more.
  Status status(std::string_view operation) const;
  /// Enqueues the kernel that fills it. Entries of the table that name no kv tile are ignored.
  Status build(const CallSite& at, const PlanTables& plans, const ConstLut& lut) const;

  const ScheduleHead* heads() const { return heads_; }  ///< [num_items]
  const uint32_t* entries() const { return entries_; }  ///< [num_items, entry_pitch]
  int64_t entry_pitch() const { return entry_pitch_; }
  int32_t* queue_head() const { return queue_head_; }  ///< 0 after `build`
  int64_t num_pairs() const { return num_pairs_; }     ///< of query blocks
  int64_t num_items() const { return num_items_; }     ///< batch * num_heads * num_pairs

 private:
  int64_t num_pairs_ = 0, num_items_ = 0, entry_pitch_ = 0;
  ScheduleHead* heads_ = nullptr;
  uint32_t* entries_ = nullptr;
  int32_t* queue_head_ = nullptr;
  bool matches_pairs_ = false;
};

}  // namespace vsa::cuda
