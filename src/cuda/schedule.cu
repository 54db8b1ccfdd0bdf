// Turns rows of a look-up table into schedules of pairs of query blocks (schedule.h): one warp a
// pair, both rows as bits in shared memory for what both keep, ballots for the order. The same
// lists give the same schedule.
#include "src/cuda/chain.h"
#include "src/cuda/launch.h"
#include "src/cuda/numbers.h"
#include "src/cuda/pair_tiles.h"
#include "src/cuda/schedule_build.h"

namespace vsa::cuda {
namespace {

constexpr int kWarps = 8;

/// A row of the table, clipped to what is in range.
struct TileList {
  const int32_t* index = nullptr;
  int32_t count = 0;
  const uint32_t* bits = nullptr;  ///< bit t of word t / 32: the row keeps tile t; null: no room
};

__device__ __forceinline__ TileList row_of(const ScheduleParams& p, int64_t head_idx,
                                           int32_t tile) {
  const int64_t row = head_idx * p.lut.dims.num_q_tiles + tile;
  return {p.lut.index + row * p.lut.dims.pitch,
          clamp_to(p.lut.count[row], static_cast<int32_t>(p.lut.dims.pitch))};
}

/// Sets the list's bits, one warp.
__device__ __forceinline__ void set_bits(TileList& list, uint32_t* bits, const ScheduleParams& p) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  for (int32_t i = lane; i < p.num_words; i += 32) bits[i] = 0;
  __syncwarp();
  for (int32_t i = lane; i < list.count; i += 32) {
    const int32_t tile = list.index[i];
    if (tile >= 0 && tile < p.kv.shape.num_tiles) atomicOr(bits + tile / 32, 1U << (tile % 32));
  }
  __syncwarp();
  list.bits = bits;
}

/// tile: in range
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

/// Which tiles of a list are meant.
enum class Which { kAllTiles, kAlsoIn, kNotIn };

/// Writes the steps of the tiles of `list` that `which` picks by `other`: first full blocks, a step
/// each, then short ones packed together.
class StepWriter {
 public:
  __device__ __forceinline__ StepWriter(const ScheduleParams& p, uint32_t* entries,
                                        const uint8_t* lens)
      : p_(p), entries_(entries), lens_(lens), lane_(static_cast<int32_t>(threadIdx.x % 32)) {}

  /// @return number of steps; `num_entries` grows by what was written, and `has_short` becomes true
  ///         if a step may have rows without a token
  __device__ __forceinline__ int32_t write(const TileList& list, const TileList& other, Which which,
                                           int32_t& num_entries, bool& has_short) {
    bool any_short = false;
    const int32_t num_full = full_blocks(list, other, which, num_entries, any_short);
    if (!any_short) return num_full;
    has_short = true;
    return num_full + short_blocks(list, other, which, num_entries);
  }

 private:
  __device__ __forceinline__ int32_t len_of(int32_t block) const {
    return lens_ != nullptr ? lens_[block] : p_.kv.blocks[block].len();
  }

  /// The lane's tile of the 32 from `base` on, or -1 if there is none or `which` does not pick it.
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
                                                 bool& any_short) {
    const int32_t before = num_entries;
    const int32_t per_tile = p_.kv.shape.blocks_per_tile;
    bool lane_has_short = false;
    for (int32_t base = 0; base < list.count; base += 32) {
      const int32_t tile = picked_tile(list, other, which, base);
      for (int32_t s = 0; s < per_tile; ++s) {
        const int32_t block = tile * per_tile + s;
        const int32_t len = tile >= 0 ? len_of(block) : 0;
        const bool is_full = len == kBlockTokens;
        lane_has_short = lane_has_short || (len > 0 && !is_full);
        const unsigned full = __ballot_sync(kAllLanes, is_full);
        if (is_full) {
          const int at = __popc(full & ((1U << lane_) - 1));
          entries_[num_entries + at] = ScheduleEntry::pack(block, 0) | ScheduleEntry::kLast;
        }
        num_entries += __popc(full);
      }
    }
    any_short = __any_sync(kAllLanes, lane_has_short);
    return num_entries - before;
  }

  __device__ __forceinline__ int32_t short_blocks(const TileList& list, const TileList& other,
                                                  Which which, int32_t& num_entries) {
    StepPacker packer;
    uint32_t pending = 0;  // the newest entry, written once it is known whether its step goes on
    const int32_t per_tile = p_.kv.shape.blocks_per_tile;
    for (int32_t base = 0; base < list.count; base += 32) {
      const int32_t tile = picked_tile(list, other, which, base);
      for (int32_t s = 0; s < per_tile; ++s) {
        const int32_t block = tile * per_tile + s;
        const int32_t len = tile >= 0 ? len_of(block) : 0;
        const unsigned all = __ballot_sync(kAllLanes, len > 0 && len < kBlockTokens);
        if (all == 0) continue;
        const bool has_pending = packer.num_steps > 0;
        // All lanes pack all blocks; each remembers the place of its own.
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

  /// kLast if the first of the blocks in `next` opens a step, and so ends the one before it.
  __device__ __forceinline__ static uint32_t last_before(unsigned next, unsigned opening) {
    return (next & (0U - next) & opening) != 0 ? ScheduleEntry::kLast : 0;
  }

  const ScheduleParams& p_;
  uint32_t* entries_;
  const uint8_t* lens_;
  const int32_t lane_;
};

__global__ void __launch_bounds__(kWarps * 32)
    schedule_kernel(const __grid_constant__ ScheduleParams p) {
  extern __shared__ uint32_t smem[];  // bits [kWarps][2][num_words], lens [num_blocks]
  after_previous();
  const uint32_t item = blockIdx.x * kWarps + threadIdx.x / 32;
  const bool active = item < p.num_items;
  const auto pair = static_cast<int32_t>(item % p.num_pairs);
  const uint32_t head_idx = item / p.num_pairs;
  const int32_t per_tile = p.q.shape.blocks_per_tile;
  int2 blocks = {pair * 2, pair * 2 + 1 < p.q.shape.num_blocks() ? pair * 2 + 1 : -1};
  if (p.pairs != nullptr && active) blocks = p.pairs[item];  // of tiles of one block
  const bool has_second = blocks.y >= 0;
  const int32_t tiles[2] = {blocks.x / per_tile, has_second ? blocks.y / per_tile : -1};
  const bool same = has_second && tiles[0] == tiles[1];
  TileList first = active ? row_of(p, head_idx, tiles[0]) : TileList{};
  TileList second = active && has_second && !same ? row_of(p, head_idx, tiles[1]) : TileList{};

  const uint8_t* lens = nullptr;
  if (p.num_words > 0) {
    auto* all_lens = reinterpret_cast<uint8_t*>(smem + kWarps * 2 * p.num_words);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.kv.shape.num_blocks();
         i += kWarps * 32) {
      all_lens[i] = static_cast<uint8_t>(p.kv.blocks[i].len());
    }
    lens = all_lens;
    if (!same) {
      uint32_t* bits = smem + threadIdx.x / 32 * 2 * p.num_words;
      set_bits(first, bits, p);
      set_bits(second, bits + p.num_words, p);
    }
    __syncthreads();
  }
  if (!active) return;

  // The three lists: common, only in the first row, only in the second. One loop, so that the body
  // is compiled once.
  StepWriter writer(p, p.entries + item * p.entry_pitch, lens);
  ScheduleHead head;
  head.q_block[0] = blocks.x;
  head.q_block[1] = blocks.y;
  int32_t num_entries = 0;
  bool has_short = false;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) {
    if (same && i > 0) {
      head.begin_own[0] = head.begin_own[1] = num_entries;
      break;
    }
    const TileList list = i < 2 ? first : second;
    const TileList other = i < 2 ? second : first;
    const Which which = i > 0 ? Which::kNotIn : same ? Which::kAllTiles : Which::kAlsoIn;
    const int32_t begin = num_entries;
    const int32_t num_steps = writer.write(list, other, which, num_entries, has_short);
    if (i == 0) head.num_common = num_steps;
    if (i == 1) {
      head.begin_own[0] = begin;
      head.num_own[0] = num_steps;
    }
    if (i == 2) {
      head.begin_own[1] = begin;
      head.num_own[1] = num_steps;
    }
  }
  head.end = num_entries;
  head.has_short = has_short ? 1 : 0;
  if (threadIdx.x % 32 == 0) p.heads[item] = head;
}

}  // namespace

Status Schedule::build(std::string_view operation, const PlanTables& plans, const ConstLut& lut,
                       cudaStream_t stream) const {
  VSA_TRY(status(operation));
  // Rows as bits and lengths of blocks, if they fit into the shared memory that needs no asking.
  const int64_t num_words = (int64_t{plans.kv().shape.num_tiles} + 31) / 32;
  const int64_t smem_bytes = kWarps * 2 * num_words * static_cast<int64_t>(sizeof(uint32_t)) +
                             plans.kv().shape.num_blocks();
  const bool fits = smem_bytes <= (48 << 10);
  if (pairs_ != nullptr) {
    VSA_TRY(run_pair_tiles(operation,
                           {.lut = lut,
                            .pairs = pairs_,
                            .num_q_tiles = plans.q().shape.num_tiles,
                            .num_kv_tiles = plans.kv().shape.num_tiles,
                            .num_words = static_cast<int32_t>(num_words),
                            .num_pairs = num_pairs_},
                           num_items_ / num_pairs_, stream));
  }
  const ScheduleParams params{.lut = lut,
                              .q = plans.q(),
                              .kv = plans.kv(),
                              .heads = heads_,
                              .entries = entries_,
                              .entry_pitch = entry_pitch_,
                              .pairs = pairs_,
                              .num_pairs = static_cast<uint32_t>(num_pairs_),
                              .num_items = static_cast<uint32_t>(num_items_),
                              .num_words = fits ? static_cast<int32_t>(num_words) : 0};
  return launch(operation, schedule_kernel,
                {.grid = dim3(grid_extent(num_items_, kWarps)),
                 .block = dim3(kWarps * 32),
                 .smem_bytes = fits ? static_cast<int>(smem_bytes) : 0,
                 .stream = stream,
                 .overlaps_previous = true},
                params);
}

}  // namespace vsa::cuda
