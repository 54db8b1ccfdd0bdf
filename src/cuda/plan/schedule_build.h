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
  int32_t* num_taken;  // becomes 0
  uint32_t num_pairs;
  uint32_t num_items;  // below 2^29
  int32_t num_words;   // for a bit of every kv tile; 0: no room for them in shared memory
};

/// Whether the lists that pairs are chosen by fit into shared memory as bits.
bool can_choose_pairs(int64_t num_kv_tiles, int64_t num_kv_blocks);
/// Enqueues the schedules of chosen pairs.
Status run_schedule_chosen(const CallSite& at, const ScheduleParams& params);

/// Which query blocks make a pair.
enum class PairBy {
  kPosition,      ///< neighbours
  kMostInCommon,  ///< tiles of one block whose lists share most, if there is room to compare them
};

/// Memory of the schedules: 48 bytes a pair, 4 for each kv block that the pair keeps, and the
/// queue.
class Schedule {
 public:
  /// Takes the memory; `dims` are those of the table.
  Schedule(Carver& workspace, const PlanTables& plans, const LutDims& dims, PairBy pair_by);
  /// Unsupported if there are 2^29 pairs or more.
  Status status(std::string_view operation) const;
  /// Enqueues what fills it. Entries of the table that name no kv tile are ignored.
  Status build(const CallSite& at, const PlanTables& plans, const ConstLut& lut) const;

  const ScheduleHead* heads() const { return heads_; }  ///< [num_items]
  const uint32_t* entries() const { return entries_; }  ///< [num_items, entry_pitch]
  int64_t entry_pitch() const { return entry_pitch_; }
  int32_t* num_taken() const { return num_taken_; }  ///< the fine kernel's queue, 0
  int64_t num_pairs() const { return num_pairs_; }   ///< of query blocks
  int64_t num_items() const { return num_items_; }   ///< batch * num_heads * num_pairs

 private:
  int64_t num_pairs_ = 0, num_items_ = 0, entry_pitch_ = 0;
  ScheduleHead* heads_ = nullptr;
  uint32_t* entries_ = nullptr;
  int32_t* num_taken_ = nullptr;
  bool chooses_pairs_ = false;
};

}  // namespace vsa::cuda
