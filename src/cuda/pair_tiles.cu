// Which query tiles share a schedule: of every 64 neighbours those two by two whose lists have most
// in common, best first, so that copies of keys and values serve both. The same lists give the same
// pairs.
#include "src/cuda/block.h"
#include "src/cuda/chain.h"
#include "src/cuda/launch.h"
#include "src/cuda/numbers.h"
#include "src/cuda/pair_tiles.h"

namespace vsa::cuda {
namespace {

constexpr int kWindow = 64;  // query tiles of a CTA
constexpr int kThreads = 256;
constexpr int kOfRow = kThreads / kWindow;  // threads that look for a row's best partner
constexpr int kPitch = kWindow + 2;         // of common counts: rows of an odd number of words
constexpr int kNone = -1;

/// Pairs are compared as numbers: what their lists have in common, then neighbours before others,
/// then the lower tiles. No two are equal.
__device__ __forceinline__ int key_of(int common, int i, int j) {
  return common << 13 | ((i ^ j) == 1 ? 1 << 12 : 0) | (kWindow - 1 - min(i, j)) << 6 |
         (kWindow - 1 - max(i, j));
}
__device__ __forceinline__ int partner_in(int key, int i) {
  const int low = kWindow - 1 - (key >> 6 & (kWindow - 1));
  const int high = kWindow - 1 - (key & (kWindow - 1));
  return i == low ? high : low;
}

/// grid: x windows of query tiles, heads outermost
__global__ void __launch_bounds__(kThreads)
    pair_tiles_kernel(const __grid_constant__ PairParams p) {
  extern __shared__ uint32_t bits[];  // [kWindow][bit_pitch]: the row keeps kv tile t
  __shared__ uint16_t common[kWindow * kPitch];
  __shared__ int best[kWindow];
  __shared__ int partner[kWindow];
  __shared__ int gain;  // of the pairs found over pairs of neighbours
  after_previous();
  const auto thread = static_cast<int>(threadIdx.x);
  const int32_t num_windows = (p.num_q_tiles + kWindow - 1) / kWindow;
  const int64_t head_idx = static_cast<int32_t>(blockIdx.x) / num_windows;
  const int32_t first = static_cast<int32_t>(blockIdx.x) % num_windows * kWindow;
  const int rows = min(kWindow, static_cast<int>(p.num_q_tiles - first));
  const int bit_pitch = p.num_words | 1;  // neighbouring rows on different banks

  for (int i = thread; i < kWindow * bit_pitch; i += kThreads) bits[i] = 0;
  if (thread < kWindow) partner[thread] = kNone;
  if (thread == 0) gain = 0;
  __syncthreads();
  for (int row = thread / 32; row < rows; row += kThreads / 32) {
    const int64_t at = head_idx * p.num_q_tiles + first + row;
    const int32_t* list = p.lut.index + at * p.lut.dims.pitch;
    const int32_t count = clamp_to(p.lut.count[at], static_cast<int32_t>(p.lut.dims.pitch));
    for (int32_t i = thread % 32; i < count; i += 32) {
      const int32_t tile = list[i];
      if (tile >= 0 && tile < p.num_kv_tiles) {
        atomicOr(bits + row * bit_pitch + tile / 32, 1U << (tile % 32));
      }
    }
  }
  __syncthreads();
  for (int e = thread; e < kWindow * kWindow; e += kThreads) {
    const int i = e / kWindow;
    const int j = e % kWindow;
    if (i >= j || j >= rows) continue;
    int both = 0;
    for (int w = 0; w < p.num_words; ++w) {
      both += __popc(bits[i * bit_pitch + w] & bits[j * bit_pitch + w]);
    }
    common[i * kPitch + j] = common[j * kPitch + i] = static_cast<uint16_t>(both);
  }
  __syncthreads();

  // A pair is taken when each is the other's best of those left: the best of all is such a pair, so
  // this is the order from the best on, with many taken at once.
  const int row = thread / kOfRow;
  for (int left = rows; left > 1;) {
    int key = kNone;
    if (row < rows && partner[row] == kNone) {
      for (int j = thread % kOfRow; j < rows; j += kOfRow) {
        if (j != row && partner[j] == kNone) {
          key = max(key, key_of(common[row * kPitch + j], row, j));
        }
      }
    }
    for (int mask = 1; mask < kOfRow; mask *= 2) {
      key = max(key, __shfl_xor_sync(kAllLanes, key, mask));
    }
    if (thread % kOfRow == 0) best[row] = key;
    __syncthreads();
    int taken = 0;
    if (thread < rows && best[thread] != kNone) {
      const int other = partner_in(best[thread], thread);
      if (best[other] == best[thread]) {
        partner[thread] = other;
        taken = 1;
      }
    }
    left -= __syncthreads_count(taken);
  }

  // Best first is not always best in all.
  if (thread < rows) {
    const int other = partner[thread];
    if (other > thread) atomicAdd(&gain, static_cast<int>(common[thread * kPitch + other]));
    if (thread % 2 == 0 && thread + 1 < rows) {
      atomicSub(&gain, static_cast<int>(common[thread * kPitch + thread + 1]));
    }
  }
  __syncthreads();
  if (gain < 0 && thread < kWindow) {
    partner[thread] = (thread ^ 1) < rows ? thread ^ 1 : kNone;
  }
  __syncthreads();
  if (thread >= rows || (partner[thread] != kNone && partner[thread] < thread)) return;
  int place = 0;
  for (int i = 0; i < thread; ++i) place += partner[i] == kNone || partner[i] > i ? 1 : 0;
  const int32_t other = partner[thread] == kNone ? kNone : first + partner[thread];
  p.pairs[head_idx * p.num_pairs + first / 2 + place] = {first + thread, other};
}

}  // namespace

bool can_pair_tiles(int64_t num_kv_tiles) {
  return kWindow * ((num_kv_tiles + 31) / 32 | 1) * 4 <= (32 << 10);
}

Status run_pair_tiles(std::string_view operation, const PairParams& params, int64_t batch_heads,
                      cudaStream_t stream) {
  return launch(
      operation, pair_tiles_kernel,
      {.grid = dim3(grid_extent(batch_heads * ((params.num_q_tiles + kWindow - 1) / kWindow))),
       .block = dim3(kThreads),
       .smem_bytes = kWindow * (params.num_words | 1) * 4,
       .stream = stream,
       .overlaps_previous = true},
      params);
}

}  // namespace vsa::cuda
