// How one warp writes the schedule of a pair of query blocks (schedule.h) from two rows of the
// look-up table. The lanes read 32 entries of a row at a time. Ballots count how many lanes before
// a lane write an entry, so the schedule has the order of the table. Bits in shared memory tell
// which tiles both rows keep. Device-only.
#pragma once

#include "src/cuda/plan/schedule_build.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda {

/// A row of the look-up table; its count is clipped to the pitch.
struct TileList {
  const int32_t* index = nullptr;
  int32_t count = 0;
  /// Bit t of word t / 32: the row keeps tile t; null: search in `index`.
  const uint32_t* bits = nullptr;
};

__device__ __forceinline__ TileList row_of(const ScheduleParams& p, int64_t head_idx,
                                           int32_t tile) {
  const int64_t row = head_idx * p.lut.dims.num_q_tiles + tile;
  return {p.lut.index + row * p.lut.dims.pitch,
          clamp_to(p.lut.count[row], static_cast<int32_t>(p.lut.dims.pitch))};
}

/// Sets a bit for each tile of a list. kThreads neighbouring threads call it; the words must be 0.
template <int kThreads>
__device__ __forceinline__ void set_bits(const TileList& list, uint32_t* bits,
                                         const ScheduleParams& p) {
  constexpr int kInFlight = 128 / kThreads;  // loads of a thread before the first use
  for (auto i = static_cast<int32_t>(threadIdx.x % kThreads); i < list.count;
       i += kInFlight * kThreads) {
    int32_t tiles[kInFlight];
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      tiles[n] = i + n * kThreads < list.count ? list.index[i + n * kThreads] : -1;
    }
#pragma unroll
    for (const int32_t tile : tiles) {
      if (tile >= 0 && tile < p.kv.shape.num_tiles) atomicOr(bits + tile / 32, 1U << (tile % 32));
    }
  }
}

/// Copies the lengths of all kv blocks to shared memory. All threads of the CTA call it.
__device__ __forceinline__ void load_lens(const ScheduleParams& p, uint8_t* lens) {
  for (auto i = static_cast<int32_t>(threadIdx.x); i < p.kv.shape.num_blocks();
       i += static_cast<int32_t>(blockDim.x)) {
    lens[i] = static_cast<uint8_t>(p.kv.blocks[i].len());
  }
}

/// Whether the list has the tile, which must be in range.
__device__ __forceinline__ bool contains(const TileList& list, int32_t tile) {
  if (list.bits != nullptr) return (list.bits[tile / 32] >> (tile % 32) & 1U) != 0;
  int32_t low = 0;
  int32_t high = list.count;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (list.index[middle] < tile) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < list.count && list.index[low] == tile;
}

/// Which tiles of a list are written: all, those also in another list, or those not in it.
enum class Which { kAllTiles, kAlsoIn, kNotIn };

/// Writes the steps of one list of a schedule: first the full blocks, one step each, then the
/// partial blocks, packed together. One warp.
class StepWriter {
 public:
  __device__ __forceinline__ StepWriter(const ScheduleParams& p, uint32_t* entries,
                                        const uint8_t* lens)
      : p_(p), entries_(entries), lens_(lens), lane_(static_cast<int32_t>(threadIdx.x % 32)) {}

  /// Appends the steps of the tiles of `list` that `which` selects by comparison with `other`.
  /// @param num_entries  increases by the number of entries written
  /// @param has_partial  becomes true if a step may have rows without a token
  /// @return number of steps
  __device__ __forceinline__ int32_t write(const TileList& list, const TileList& other, Which which,
                                           int32_t& num_entries, bool& has_partial) {
    bool any_partial = false;
    const int32_t num_full = full_blocks(list, other, which, num_entries, any_partial);
    if (!any_partial) return num_full;
    has_partial = true;
    return num_full + partial_blocks(list, other, which, num_entries);
  }

 private:
  __device__ __forceinline__ int32_t len_of(int32_t block) const {
    return lens_ != nullptr ? lens_[block] : p_.kv.blocks[block].len();
  }

  /// The list's tile number base + lane, or -1 if there is none or `which` does not select it.
  __device__ __forceinline__ int32_t picked_tile(const TileList& list, const TileList& other,
                                                 Which which, int32_t base) const {
    if (base + lane_ >= list.count) return -1;
    const int32_t tile = list.index[base + lane_];
    if (tile < 0 || tile >= p_.kv.shape.num_tiles) return -1;
    if (which != Which::kAllTiles && contains(other, tile) != (which == Which::kAlsoIn)) return -1;
    return tile;
  }

  __device__ __forceinline__ int32_t full_blocks(const TileList& list, const TileList& other,
                                                 Which which, int32_t& num_entries,
                                                 bool& any_partial) {
    const int32_t before = num_entries;
    const int32_t per_tile = p_.kv.shape.blocks_per_tile;
    bool lane_has_partial = false;
    for (int32_t base = 0; base < list.count; base += 32) {
      const int32_t tile = picked_tile(list, other, which, base);
      for (int32_t s = 0; s < per_tile; ++s) {
        const int32_t block = tile * per_tile + s;
        const int32_t len = tile >= 0 ? len_of(block) : 0;
        const bool is_full = len == kBlockTokens;
        lane_has_partial = lane_has_partial || (len > 0 && !is_full);
        const unsigned full = __ballot_sync(kAllLanes, is_full);
        if (is_full) {
          const int at = __popc(full & ((1U << lane_) - 1));
          entries_[num_entries + at] = ScheduleEntry::pack(block, 0) | ScheduleEntry::kLast;
        }
        num_entries += __popc(full);
      }
    }
    any_partial = __any_sync(kAllLanes, lane_has_partial);
    return num_entries - before;
  }

  __device__ __forceinline__ int32_t partial_blocks(const TileList& list, const TileList& other,
                                                    Which which, int32_t& num_entries) {
    StepPacker packer;
    // The last entry, which is written when the next block shows whether this one ends its step.
    uint32_t pending = 0;
    const int32_t per_tile = p_.kv.shape.blocks_per_tile;
    for (int32_t base = 0; base < list.count; base += 32) {
      const int32_t tile = picked_tile(list, other, which, base);
      for (int32_t s = 0; s < per_tile; ++s) {
        const int32_t block = tile * per_tile + s;
        const int32_t len = tile >= 0 ? len_of(block) : 0;
        const unsigned all = __ballot_sync(kAllLanes, len > 0 && len < kBlockTokens);
        if (all == 0) continue;
        const bool has_pending = packer.num_steps > 0;
        // All lanes place all blocks, and each remembers the row of its own block.
        unsigned opening = 0;
        int32_t row = 0;
        for (unsigned left = all; left != 0; left &= left - 1) {
          const int from = __ffs(static_cast<int>(left)) - 1;
          const StepPacker::Place at = packer.place(__shfl_sync(kAllLanes, len, from));
          if (at.opens_step) opening |= 1U << from;
          if (lane_ == from) row = at.row;
        }
        if (has_pending && lane_ == 0) {
          entries_[num_entries - 1] = pending | last_before(all, opening);
        }
        const unsigned so_far = (2U << lane_) - 1;
        const uint32_t entry =
            ScheduleEntry::pack(block, row) | last_before(all & ~so_far, opening);
        const bool is_newest = (all & ~so_far) == 0;
        if ((all >> lane_ & 1U) != 0 && !is_newest) {
          entries_[num_entries + __popc(all & so_far) - 1] = entry;
        }
        pending = __shfl_sync(kAllLanes, entry, 31 - __clz(static_cast<int>(all)));
        num_entries += __popc(all);
      }
    }
    if (packer.num_steps > 0 && lane_ == 0) {
      entries_[num_entries - 1] = pending | ScheduleEntry::kLast;
    }
    return packer.num_steps;
  }

  /// kLast if the first of the blocks in the mask `next` opens a step, which ends the step before
  /// it.
  __device__ __forceinline__ static uint32_t last_before(unsigned next, unsigned opening) {
    return (next & (0U - next) & opening) != 0 ? ScheduleEntry::kLast : 0;
  }

  const ScheduleParams& p_;
  uint32_t* entries_;
  const uint8_t* lens_;
  const int32_t lane_;
};

/// Writes the schedule of a pair. One warp calls it.
/// @param blocks  query blocks of the halves; the second is -1 if there is none
/// @param first   list of the first half
/// @param second  list of the second half
/// @param same    whether both have the same list: then `second` is not read
/// @param lens    lengths of kv blocks in shared memory (load_lens); null: read from global memory
__device__ __forceinline__ void write_schedule(const ScheduleParams& p, int64_t item,
                                               const int2& blocks, const TileList& first,
                                               const TileList& second, bool same,
                                               const uint8_t* lens) {
  // The three lists: common, only first, only second. The loop is not unrolled, so that its large
  // body is compiled once.
  StepWriter writer(p, p.entries + item * p.entry_pitch, lens);
  ScheduleHead head;
  head.q_block[0] = blocks.x;
  head.q_block[1] = blocks.y;
  int32_t num_entries = 0;
  bool has_partial = false;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) {
    if (same && i > 0) {
      head.begin_exclusive[0] = head.begin_exclusive[1] = num_entries;
      break;
    }
    const TileList list = i < 2 ? first : second;
    const TileList other = i < 2 ? second : first;
    const Which which = i > 0 ? Which::kNotIn : same ? Which::kAllTiles : Which::kAlsoIn;
    const int32_t begin = num_entries;
    const int32_t num_steps = writer.write(list, other, which, num_entries, has_partial);
    if (i == 0) head.num_common = num_steps;
    if (i == 1) {
      head.begin_exclusive[0] = begin;
      head.num_exclusive[0] = num_steps;
    }
    if (i == 2) {
      head.begin_exclusive[1] = begin;
      head.num_exclusive[1] = num_steps;
    }
  }
  head.end = num_entries;
  head.has_partial = has_partial ? 1 : 0;
  if (threadIdx.x % 32 != 0) return;
  p.heads[item] = head;
  if (item == 0) *p.queue_head = 0;
}

}  // namespace vsa::cuda
