// Schedules of all pairs of query blocks of a call. Host-only.
#pragma once

#include "src/cuda/plan.h"
#include "src/cuda/schedule.h"
#include "vsa/lut.h"

namespace vsa::cuda {

struct ScheduleParams {
  ConstLut lut;
  PlanTable q, kv;
  ScheduleHead* heads;
  uint32_t* entries;
  int64_t entry_pitch;
  const int2* pairs;  // of query tiles [num_items]; null: of neighbours
  uint32_t num_pairs;
  uint32_t num_items;  // below 2^29
  int32_t num_words;   // for a bit of every kv tile; 0: no room for them in shared memory
};

/// Memory of the schedules: 48 bytes a pair, 8 where pairs are chosen, and 4 for each kv block that
/// the pair keeps.
class Schedule {
 public:
  /// Takes the memory; `dims` are those of the table.
  /// @param shares  whether the halves of a pair share copies: then query tiles are paired by what
  ///                their lists have in common
  Schedule(Carver& workspace, const PlanTables& plans, const LutDims& dims, bool shares);
  /// Unsupported if there are 2^29 pairs or more.
  Status status(std::string_view operation) const;
  /// Enqueues what fills it. Entries of the table that name no kv tile are ignored.
  Status build(std::string_view operation, const PlanTables& plans, const ConstLut& lut,
               cudaStream_t stream) const;

  const ScheduleHead* heads() const { return heads_; }  ///< [num_items]
  const uint32_t* entries() const { return entries_; }  ///< [num_items, entry_pitch]
  int64_t entry_pitch() const { return entry_pitch_; }
  int64_t num_pairs() const { return num_pairs_; }  ///< of query blocks
  int64_t num_items() const { return num_items_; }  ///< batch * num_heads * num_pairs

 private:
  int64_t num_pairs_ = 0, num_items_ = 0, entry_pitch_ = 0;
  ScheduleHead* heads_ = nullptr;
  uint32_t* entries_ = nullptr;
  int2* pairs_ = nullptr;
};

}  // namespace vsa::cuda
