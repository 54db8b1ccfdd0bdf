// Writes the schedules (schedule.h) of matched pairs: among every 64 neighbouring query tiles,
// those two become a pair whose lists share the most kv tiles, so that a copy of a key block serves
// both. For tiles of one block.
//
//   lut rows of 64 query tiles -> bits in shared memory -> popcount of row i AND row j
//        |                                                     | greedy matching, best pair first
//        |                                                     v
//        +---- one warp for each pair <------------------ 32 pairs -> heads, entries
//
// A CTA of 1024 threads processes one window of 64 query tiles. 16 threads together have one row
// and compare it with 4 other rows each. Shared memory: 64 rows of num_kv_tiles bits, one byte for
// each kv block (its length) and Pairing, at most 48 KiB in all. __syncthreads separates the
// phases. The same lists give the same pairs.
#include "src/cuda/plan/block.h"
#include "src/cuda/plan/schedule_build.h"
#include "src/cuda/plan/schedule_writer.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kWindow = 64;         // query tiles of a CTA
constexpr int kThreadsPerRow = 16;  // a row is the list of one query tile
constexpr int kThreads = kWindow * kThreadsPerRow;
static_assert(kThreads / 32 == kWindow / 2, "one warp for each pair");
constexpr int kOthers = kWindow / kThreadsPerRow;  // rows that a thread compares with its own
constexpr int kNone = -1;

static_assert(kWindow == 64, "keys have 6 bits for a row");

/// The rank of the pair (i, j) as an integer: pairs with more common tiles are larger, then
/// neighbours, then pairs of lower rows. No two pairs have the same key.
__device__ __forceinline__ int key_of(int common, int i, int j) {
  return common << 13 | ((i ^ j) == 1 ? 1 << 12 : 0) | (kWindow - 1 - min(i, j)) << 6 |
         (kWindow - 1 - max(i, j));
}
__device__ __forceinline__ int common_in(int key) { return key >> 13; }
__device__ __forceinline__ int partner_in(int key, int i) {
  const int low = kWindow - 1 - (key >> 6 & (kWindow - 1));
  const int high = kWindow - 1 - (key & (kWindow - 1));
  return i == low ? high : low;
}

/// Shared memory of the matching.
struct Pairing {
  int best[kWindow];               // key of a row's best pair with a row that has no partner yet
  int partner[kWindow];            // kNone: none yet
  uint32_t left[kWindow / 32];     // bit mask of rows without a partner
  uint32_t leaders[kWindow / 32];  // bit mask of rows that are the first of their pair
  int gain;                        // common tiles of the matched pairs minus those of neighbours
  int2 pairs[kWindow / 2];         // the rows of each pair; the second is kNone if there is none
};

/// Matches the rows of a window and writes s.pairs. All threads of the CTA call it.
/// @param bits  [kWindow][bit_pitch] words: whether the row keeps kv tile t
__device__ __forceinline__ void pair_rows(const uint32_t* bits, int num_words, int bit_pitch,
                                          int rows, Pairing& s) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int row = thread / kThreadsPerRow;
  if (thread < kWindow) s.partner[thread] = kNone;
  if (thread < kWindow / 32) s.left[thread] = ~0U;
  if (thread == 0) s.gain = 0;
  __syncthreads();
  int keys[kOthers] = {};  // first the number of common tiles, then the key of the pair
  const auto other_of = [thread](int n) { return thread % kThreadsPerRow + n * kThreadsPerRow; };
  for (int w = 0; w < num_words; ++w) {
    const uint32_t own = bits[row * bit_pitch + w];
#pragma unroll
    for (int n = 0; n < kOthers; ++n) keys[n] += __popc(own & bits[other_of(n) * bit_pitch + w]);
  }
#pragma unroll
  for (int n = 0; n < kOthers; ++n) {
    const int j = other_of(n);
    keys[n] = row < rows && j < rows && j != row ? key_of(keys[n], row, j) : kNone;
  }

  // A pair is matched when each row is the other's best. The best pair of all is always one of
  // these, so the result is that of greedy matching, but many pairs are found in one round.
  for (int left = rows; left > 1;) {
    int key = kNone;
    if ((s.left[row / 32] >> (row % 32) & 1U) != 0) {
#pragma unroll
      for (int n = 0; n < kOthers; ++n) {
        const int j = other_of(n);
        if ((s.left[j / 32] >> (j % 32) & 1U) != 0) key = max(key, keys[n]);
      }
    }
#pragma unroll
    for (int lanes = 1; lanes < kThreadsPerRow; lanes *= 2) {
      key = max(key, __shfl_xor_sync(kAllLanes, key, lanes));
    }
    if (thread % kThreadsPerRow == 0) s.best[row] = key;
    __syncthreads();
    int taken = 0;
    if (thread < kWindow) {
      if (s.best[thread] != kNone) {
        const int other = partner_in(s.best[thread], thread);
        if (s.best[other] == s.best[thread]) {
          s.partner[thread] = other;
          taken = 1;
        }
      }
      const unsigned all_taken = __ballot_sync(kAllLanes, taken != 0);
      if (thread % 32 == 0) s.left[thread / 32] &= ~all_taken;
    }
    left -= __syncthreads_count(taken);
  }

  // Greedy matching is not optimal: keep the pairs of neighbours if they have more in common.
  int own_gain = 0;
#pragma unroll
  for (int n = 0; n < kOthers; ++n) {
    const int j = other_of(n);
    if (j < row || keys[n] == kNone) continue;
    if (j == s.partner[row]) own_gain += common_in(keys[n]);
    if (j == (row ^ 1)) own_gain -= common_in(keys[n]);
  }
  if (own_gain != 0) atomicAdd(&s.gain, own_gain);
  __syncthreads();
  int partner = kNone;
  unsigned leaders = 0;  // this warp's word of s.leaders
  if (thread < kWindow) {
    const int neighbour = (thread ^ 1) < rows ? thread ^ 1 : kNone;
    partner = s.gain < 0 ? neighbour : s.partner[thread];
    leaders = __ballot_sync(kAllLanes, thread < rows && (partner == kNone || partner > thread));
    if (thread % 32 == 0) s.leaders[thread / 32] = leaders;
  }
  __syncthreads();
  if ((leaders >> (thread % 32) & 1U) == 0) return;
  const int place =
      (thread < 32 ? 0 : __popc(s.leaders[0])) + __popc(leaders & ((1U << (thread % 32)) - 1));
  s.pairs[place] = {thread, partner};
}

/// grid: x windows of query tiles, heads outermost. One CTA matches a window and writes its
/// schedules.
__global__ void __launch_bounds__(kThreads)
    schedule_matched_kernel(const __grid_constant__ ScheduleParams p) {
  extern __shared__ uint32_t smem[];  // bits [kWindow][bit_pitch], lens [num_blocks]
  __shared__ Pairing pairing;
  pdl_wait_and_trigger();
  const auto thread = static_cast<int>(threadIdx.x);
  const int32_t num_tiles = p.q.shape.num_tiles;
  const int32_t num_windows = (num_tiles + kWindow - 1) / kWindow;
  const int64_t head_idx = static_cast<int32_t>(blockIdx.x) / num_windows;
  const int32_t first = static_cast<int32_t>(blockIdx.x) % num_windows * kWindow;
  const int rows = min(kWindow, static_cast<int>(num_tiles - first));
  const int bit_pitch = p.num_words | 1;  // odd, so that neighbouring rows lie on different banks
  const auto list_of = [&](int row) {
    TileList list = row_of(p, head_idx, first + row);
    list.bits = smem + row * bit_pitch;
    return list;
  };

  auto* lens = reinterpret_cast<uint8_t*>(smem + kWindow * bit_pitch);
  load_lens(p, lens);
  for (int i = thread; i < kWindow * bit_pitch; i += kThreads) smem[i] = 0;
  __syncthreads();
  const int row = thread / kThreadsPerRow;
  if (row < rows) set_bits<kThreadsPerRow>(list_of(row), smem + row * bit_pitch, p);
  pair_rows(smem, p.num_words, bit_pitch, rows, pairing);
  __syncthreads();

  const int warp = thread / 32;
  if (2 * warp >= rows) return;
  const int2 pair = pairing.pairs[warp];
  const bool has_second = pair.y != kNone;
  write_schedule(p, head_idx * p.num_pairs + first / 2 + warp,
                 {first + pair.x, has_second ? first + pair.y : -1}, list_of(pair.x),
                 has_second ? list_of(pair.y) : TileList{}, false, lens);
}

int64_t smem_bytes(int64_t num_words, int64_t num_kv_blocks) {
  return kWindow * (num_words | 1) * 4 + num_kv_blocks;
}

}  // namespace

bool can_match_pairs(int64_t num_kv_tiles, int64_t num_kv_blocks) {
  return smem_bytes(words_for(num_kv_tiles), num_kv_blocks) <=
         (48 << 10) - static_cast<int64_t>(sizeof(Pairing));  // what a kernel has by default
}

Status run_schedule_matched(const CallSite& at, const ScheduleParams& params) {
  const int64_t num_windows = (params.q.shape.num_tiles + kWindow - 1) / kWindow;
  const int64_t batch_heads = params.num_items / params.num_pairs;
  return launch(
      at, schedule_matched_kernel,
      {.grid = dim3(grid_extent(batch_heads * num_windows)),
       .block = dim3(kThreads),
       .smem_bytes = static_cast<int>(smem_bytes(params.num_words, params.kv.shape.num_blocks())),
       .overlaps_previous = true},
      params);
}

}  // namespace vsa::cuda
