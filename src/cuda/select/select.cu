// select: writes the indices of exactly the k best kv tiles of each row of scores, ascending; the
// best are those first by (score descending, index ascending).
//
//   scores -> keys: integers in the order of the scores (select_key.h); forced columns are largest
//          -> the k-th largest key (find_threshold)
//          -> larger keys and the first of the equal ones, in index order (write_row)
//          -> index, count of the look-up table
//
// Each warp processes one row, 8 warps in a CTA, which do not cooperate. A row of up to 2048 tiles
// is held in registers, and the k-th key is found bit by bit. A longer row is read from memory
// again for every 8 bits of the key (radix select) with 8 KiB of counts in shared memory, 1 KiB for
// each warp. Counts are integers, so the result does not depend on the order of the atomics.
#include <algorithm>

#include "src/cuda/select/select.h"
#include "src/cuda/select/select_key.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kBins = 256;

__device__ __forceinline__ bool bit_of(const uint32_t* bits, int i) {
  return bits != nullptr && (bits[i / 32] >> (i % 32) & 1U) != 0;
}

/// A row of scores in global memory.
struct Row {
  const float* scores;
  const uint32_t* forced;
  int size;

  __device__ __forceinline__ uint32_t key(int j) const {
    return bit_of(forced, j) ? kForcedKey : select_key(__float_as_uint(scores[j]));
  }
};

/// What a row keeps: keys larger than `key`, and keys equal to it up to column `last`.
struct Threshold {
  uint32_t key;
  int last;
};

/// The column of the n-th key in index order that equals `key`, n from 1 on.
template <class KeyRow>
__device__ __forceinline__ int column_of_equal(KeyRow& row, uint32_t key, int n) {
  int column = 0;
  row.for_each([&](int j, uint32_t other) {
    unsigned equal = __ballot_sync(kAllLanes, j < row.size() && other == key);
    const int count = __popc(equal);
    if (n > 0 && n <= count) {
      for (int i = 1; i < n; ++i) equal &= equal - 1;
      column = j - static_cast<int>(threadIdx.x % 32) + __ffs(static_cast<int>(equal)) - 1;
    }
    n -= count;
  });
  return column;
}

/// A row of any length, whose keys are read from global memory in every pass.
class LongRow {
 public:
  __device__ __forceinline__ LongRow(const Row& row, uint32_t* bins) : row_(row), bins_(bins) {}

  __device__ __forceinline__ int size() const { return row_.size; }

  /// Calls visit(j, key) for this lane's column of every 32.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) {
    for (int base = 0; base < row_.size; base += 32) {
      const int j = base + static_cast<int>(threadIdx.x % 32);
      visit(j, j < row_.size ? row_.key(j) : 0);
    }
  }

  __device__ __forceinline__ Threshold find_threshold(int k) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    uint32_t found = 0;
    int of_equal = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
      for (int i = lane; i < kBins; i += 32) bins_[i] = 0;
      __syncwarp();
      for (int j = lane; j < row_.size; j += 32) {
        const uint32_t key = row_.key(j);
        const bool candidate = shift == 24 || (key ^ found) >> (shift + 8) == 0;
        if (candidate) atomicAdd(&bins_[key >> shift & 255U], 1U);
      }
      __syncwarp();
      // Lane l adds up bins 255 - 8 l down to 248 - 8 l. The first lane whose running sum reaches
      // of_equal has the bin of the k-th key.
      const int top = kBins - 1 - lane * 8;
      int mine = 0;
      for (int i = 0; i < 8; ++i) mine += static_cast<int>(bins_[top - i]);
      int running = mine;
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(kAllLanes, running, step);
        if (lane >= step) running += other;
      }
      const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, running >= of_equal))) - 1;
      int bin = top;
      int left = of_equal - (running - mine);
      if (lane == owner) {
        while (left > static_cast<int>(bins_[bin])) left -= static_cast<int>(bins_[bin--]);
      }
      found |= static_cast<uint32_t>(__shfl_sync(kAllLanes, bin, owner)) << shift;
      of_equal = __shfl_sync(kAllLanes, left, owner);
      __syncwarp();
    }
    return {found, column_of_equal(*this, found, of_equal)};
  }

 private:
  const Row& row_;
  uint32_t* bins_;
};

/// A row of at most 32 * kRegisters keys, which are read once and held in registers.
template <int kRegisters>
class ShortRow {
 public:
  __device__ __forceinline__ explicit ShortRow(const Row& row) : size_(row.size) {
    // All loads are issued before the first result is used. Columns beyond the end get a NaN, whose
    // key is 0.
    constexpr uint32_t kNan = ~0U;
    for_each(
        [&](int j, uint32_t& key) { key = j < size_ ? __float_as_uint(row.scores[j]) : kNan; });
    for_each([&](int, uint32_t& key) { key = select_key(key); });
    if (row.forced == nullptr) return;
    for_each([&](int j, uint32_t& key) {
      if (j < size_ && bit_of(row.forced, j)) key = kForcedKey;
    });
  }

  __device__ __forceinline__ int size() const { return size_; }

  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) visit(r * 32 + lane, keys_[r]);
  }

  /// The k-th largest key is the largest number that at least k keys reach; its bits are found from
  /// the highest on. The keys of columns beyond the end are 0, which is never counted.
  __device__ __forceinline__ Threshold find_threshold(int k) {
    uint32_t most = 0;
    for_each([&](int, uint32_t key) { most = max(most, key); });
    most = __reduce_max_sync(kAllLanes, most);
    uint32_t found = 0;
#pragma unroll 1
    for (uint32_t bit = 1U << 31; bit != 0; bit /= 2) {
      const uint32_t key = found | bit;
      if (key > most) continue;
      const int count = count_from(key);
      if (count >= k) found = key;
      if (count == k) return {found, size_};  // exactly the keys from `found` on are kept
    }
    return {found, column_of_equal(*this, found, k - count_from(found + 1))};
  }

 private:
  /// The number of keys >= key, for key > 0: adding -key to such a key sets the carry flag, which
  /// is then added to the count. Without the inline PTX the compiler uses three dependent
  /// instructions for each key instead of two.
  __device__ __forceinline__ int count_from(uint32_t key) {
    const uint32_t complement = 0U - key;
    uint32_t counts[4] = {};
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      asm("{\n .reg .u32 sum;\n add.cc.u32 sum, %1, %2;\n addc.u32 %0, %0, 0;\n}"
          : "+r"(counts[r % 4])
          : "r"(keys_[r]), "r"(complement));
    }
    return static_cast<int>(
        __reduce_add_sync(kAllLanes, counts[0] + counts[1] + counts[2] + counts[3]));
  }

  int size_;
  uint32_t keys_[kRegisters];
};

/// Writes the indices of the kept columns, ascending, then -1 up to the pitch, and their number.
template <class KeyRow>
__device__ __forceinline__ void write_row(KeyRow& row, const Threshold& threshold, const Lut& lut,
                                          int64_t row_idx) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned before = (1U << lane) - 1;
  int32_t* index = lut.index + row_idx * lut.dims.pitch;
  int count = 0;
  row.for_each([&](int j, uint32_t key) {
    const bool kept = key >= threshold.key + (j > threshold.last ? 1 : 0);
    const unsigned all_kept = __ballot_sync(kAllLanes, kept);
    if (kept) index[count + __popc(all_kept & before)] = j;
    count += __popc(all_kept);
  });
  for (int64_t i = count + lane; i < lut.dims.pitch; i += 32) index[i] = -1;
  if (lane == 0) lut.count[row_idx] = count;
}

/// Registers of a thread in addition to those for keys.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kOtherRegisters = 66;  // with fewer, registers spill
#else
constexpr int kOtherRegisters = 32;
#endif
constexpr int ctas_of(int registers) {
  return 65536 / (kWarps * 32) / (std::max(registers, 16) + kOtherRegisters);
}

/// @tparam kRegisters  of a lane for keys; 0: LongRow
template <int kRegisters>
__global__ void __launch_bounds__(kWarps * 32, ctas_of(kRegisters))
    select_kernel(const __grid_constant__ SelectParams p) {
  if (!p.beside_coarse_out) pdl_wait_and_trigger();
  const int warp = static_cast<int>(threadIdx.x / 32);
  const LutDims& dims = p.lut.dims;
  const int64_t row_idx = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (row_idx >= dims.batch * dims.num_heads * dims.num_q_tiles) return;
  const int64_t i = row_idx % dims.num_q_tiles;
  const int64_t h = row_idx / dims.num_q_tiles % dims.num_heads;
  const int64_t b = row_idx / dims.num_q_tiles / dims.num_heads;
  const Row memory{static_cast<const float*>(p.scores.data) + b * p.scores.batch +
                       h * p.scores.head + i * p.scores.seq,
                   p.forced, p.num_kv_tiles};
  const bool dense = p.num_kept >= p.num_kv_tiles || bit_of(p.dense, static_cast<int>(i));
  const auto select = [&](auto row) {
    const Threshold all{0, p.num_kv_tiles - 1};  // columns beyond the end have the key 0
    write_row(row, dense ? all : row.find_threshold(p.num_kept), p.lut, row_idx);
  };
  if constexpr (kRegisters == 0) {
    __shared__ uint32_t bins[kWarps][kBins];
    select(LongRow(memory, bins[warp]));
  } else {
    select(ShortRow<kRegisters>(memory));
  }
  // A later kernel waits for this one alone, so this one must not end before coarse_out_kernel.
  if (p.beside_coarse_out) pdl_wait_and_trigger();
}

/// Copies a look-up table to another pitch, one warp for each row.
__global__ void __launch_bounds__(kWarps * 32)
    copy_lut_kernel(const __grid_constant__ ConstLut from, const __grid_constant__ Lut to) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const LutDims& dims = from.dims;
  if (row >= dims.batch * dims.num_heads * dims.num_q_tiles) return;
  const int32_t count = clamp_to(from.count[row], static_cast<int32_t>(dims.pitch));
  for (int64_t i = threadIdx.x % 32; i < to.dims.pitch; i += 32) {
    to.index[row * to.dims.pitch + i] = i < count ? from.index[row * dims.pitch + i] : -1;
  }
  if (threadIdx.x % 32 == 0) to.count[row] = count;
}

LaunchShape rows_shape(const LutDims& dims) {
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  return {.grid = dim3(grid_extent(rows, kWarps)), .block = dim3(kWarps * 32)};
}

}  // namespace

Status run_select(const CallSite& at, const SelectParams& params) {
  LaunchShape shape = rows_shape(params.lut.dims);
  shape.overlaps_previous = true;
  const int32_t size = params.num_kv_tiles;
  if (size <= 16 * 32) return launch(at, select_kernel<16>, shape, params);
  if (size <= 24 * 32) return launch(at, select_kernel<24>, shape, params);
  if (size <= 48 * 32) return launch(at, select_kernel<48>, shape, params);
  if (size <= 64 * 32) return launch(at, select_kernel<64>, shape, params);
  return launch(at, select_kernel<0>, shape, params);
}

Status run_copy_lut(const CallSite& at, const ConstLut& from, const Lut& to) {
  return launch(at, copy_lut_kernel, rows_shape(from.dims), from, to);
}

}  // namespace vsa::cuda
