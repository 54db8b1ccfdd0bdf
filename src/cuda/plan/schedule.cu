// Writes the schedules (schedule.h) of pairs of neighbouring query blocks from rows of the look-up
// table.
//
//   lut rows of both query blocks -> bits in shared memory: row keeps kv tile t
//        |                             |
//        +---- one warp for each pair -+-> common and exclusive steps -> heads, entries
//
// A CTA has 8 warps, and each warp writes one schedule. Shared memory: for each warp two rows of
// num_kv_tiles bits, and for each kv block one byte, its length. If that is more than 48 KiB, the
// kernel uses no shared memory, and searches the table instead. __syncthreads separates filling
// from use. The same lists give the same schedule.
#include "src/cuda/plan/schedule_build.h"
#include "src/cuda/plan/schedule_writer.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kWarps = 8;

/// Sets the bits of a list in shared memory and returns the list with them. One warp calls it.
__device__ __forceinline__ TileList with_bits(TileList list, uint32_t* bits,
                                              const ScheduleParams& p) {
  for (auto i = static_cast<int32_t>(threadIdx.x % 32); i < p.num_words; i += 32) bits[i] = 0;
  __syncwarp();
  set_bits<32>(list, bits, p);
  __syncwarp();
  list.bits = bits;
  return list;
}

__global__ void __launch_bounds__(kWarps * 32)
    schedule_kernel(const __grid_constant__ ScheduleParams p) {
  extern __shared__ uint32_t smem[];  // bits [kWarps][2][num_words], lens [num_blocks]
  pdl_wait_and_trigger();
  const uint32_t item = blockIdx.x * kWarps + threadIdx.x / 32;
  const bool active = item < p.num_items;
  const auto pair = static_cast<int32_t>(item % p.num_pairs);
  const uint32_t head_idx = item / p.num_pairs;
  const int32_t per_tile = p.q.shape.blocks_per_tile;
  const int2 blocks = {pair * 2, pair * 2 + 1 < p.q.shape.num_blocks() ? pair * 2 + 1 : -1};
  const bool has_second = blocks.y >= 0;
  const int32_t tiles[2] = {blocks.x / per_tile, has_second ? blocks.y / per_tile : -1};
  const bool same = has_second && tiles[0] == tiles[1];
  TileList first = active ? row_of(p, head_idx, tiles[0]) : TileList{};
  TileList second = active && has_second && !same ? row_of(p, head_idx, tiles[1]) : TileList{};

  const uint8_t* lens = nullptr;
  if (p.num_words > 0) {
    auto* all_lens = reinterpret_cast<uint8_t*>(smem + kWarps * 2 * p.num_words);
    load_lens(p, all_lens);
    lens = all_lens;
    if (!same) {
      uint32_t* bits = smem + threadIdx.x / 32 * 2 * p.num_words;
      first = with_bits(first, bits, p);
      second = with_bits(second, bits + p.num_words, p);
    }
    __syncthreads();
  }
  if (!active) return;
  write_schedule(p, item, blocks, first, second, same, lens);
}

}  // namespace

Status Schedule::build(const CallSite& at, const PlanTables& plans, const ConstLut& lut) const {
  VSA_TRY(status(at.operation));
  const int64_t num_words = words_for(plans.kv().shape.num_tiles);
  ScheduleParams params{.lut = lut,
                        .q = plans.q(),
                        .kv = plans.kv(),
                        .heads = heads_,
                        .entries = entries_,
                        .entry_pitch = entry_pitch_,
                        .queue_head = queue_head_,
                        .num_pairs = static_cast<uint32_t>(num_pairs_),
                        .num_items = static_cast<uint32_t>(num_items_),
                        .num_words = static_cast<int32_t>(num_words)};
  if (matches_pairs_) return run_schedule_matched(at, params);
  // Bits and lengths are used if they fit into the 48 KiB that a kernel has without an attribute.
  const int64_t smem_bytes = kWarps * 2 * num_words * static_cast<int64_t>(sizeof(uint32_t)) +
                             plans.kv().shape.num_blocks();
  const bool fits = smem_bytes <= (48 << 10);
  if (!fits) params.num_words = 0;
  return launch(at, schedule_kernel,
                {.grid = dim3(grid_extent(num_items_, kWarps)),
                 .block = dim3(kWarps * 32),
                 .smem_bytes = fits ? static_cast<int>(smem_bytes) : 0,
                 .overlaps_previous = true},
                params);
}

}  // namespace vsa::cuda
