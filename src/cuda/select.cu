// select: exactly the k best of each row, ascending, by (score descending, index ascending).
//
// One warp a row finds the k-th largest key, then keeps, in index order, all keys above it and the
// first of those equal to it. A row of up to 2048 tiles is held in registers, and the key found bit
// by bit; a longer one is read again for each 8 bits (radix select, counts in shared memory).
// Counts are integers, so nothing depends on the order of the atomics.
#include <algorithm>
#include <vector>

#include "src/cuda/launch.h"
#include "src/cuda/plan.h"
#include "src/cuda/select.h"
#include "src/cuda/select_key.h"

namespace vsa::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kBins = 256;
constexpr unsigned kAll = ~0U;

__device__ __forceinline__ bool bit_of(const uint32_t* bits, int i) {
  return bits != nullptr && (bits[i / 32] >> (i % 32) & 1U) != 0;
}

/// A row of scores in memory.
struct Row {
  const float* scores;
  const uint32_t* forced;
  int size;

  __device__ __forceinline__ uint32_t key(int j) const {
    return bit_of(forced, j) ? kForcedKey : select_key(__float_as_uint(scores[j]));
  }
};

/// The k-th largest key of the row, and how many of those equal to it are among the k.
struct Threshold {
  uint32_t key;
  int of_equal;
};

/// Every key is read from memory whenever it is asked for.
class LongRow {
 public:
  __device__ __forceinline__ LongRow(const Row& row, uint32_t* bins) : row_(row), bins_(bins) {}

  __device__ __forceinline__ int size() const { return row_.size; }

  /// Calls visit(j, key) for this lane's column of every 32.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
    for (int base = 0; base < row_.size; base += 32) {
      const int j = base + static_cast<int>(threadIdx.x % 32);
      visit(j, j < row_.size ? row_.key(j) : 0);
    }
  }

  __device__ Threshold find_threshold(int k) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Threshold found{0, k};
    for (int shift = 24; shift >= 0; shift -= 8) {
      for (int i = lane; i < kBins; i += 32) bins_[i] = 0;
      __syncwarp();
      for (int j = lane; j < row_.size; j += 32) {
        const uint32_t key = row_.key(j);
        const bool candidate = shift == 24 || (key ^ found.key) >> (shift + 8) == 0;
        if (candidate) atomicAdd(&bins_[key >> shift & 255U], 1U);
      }
      __syncwarp();
      // Lane l counts bins 255 - 8 l down to 248 - 8 l: the first lane to reach of_equal has the
      // bin.
      const int top = kBins - 1 - lane * 8;
      int mine = 0;
      for (int i = 0; i < 8; ++i) mine += static_cast<int>(bins_[top - i]);
      int running = mine;
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(kAll, running, step);
        if (lane >= step) running += other;
      }
      const int owner = __ffs(static_cast<int>(__ballot_sync(kAll, running >= found.of_equal))) - 1;
      int bin = top;
      int left = found.of_equal - (running - mine);
      if (lane == owner) {
        while (left > static_cast<int>(bins_[bin])) left -= static_cast<int>(bins_[bin--]);
      }
      found.key |= static_cast<uint32_t>(__shfl_sync(kAll, bin, owner)) << shift;
      found.of_equal = __shfl_sync(kAll, left, owner);
      __syncwarp();
    }
    return found;
  }

 private:
  const Row& row_;
  uint32_t* bins_;
};

/// At most 32 kRegisters keys, read once.
template <int kRegisters>
class ShortRow {
 public:
  __device__ __forceinline__ explicit ShortRow(const Row& row) : size_(row.size) {
    for_each([&](int j, uint32_t& key) { key = j < size_ ? row.key(j) : 0; });
  }

  __device__ __forceinline__ int size() const { return size_; }

  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) visit(r * 32 + lane, keys_[r]);
  }

  /// The k-th largest key is the largest that k keys reach. What fills up the registers is 0, which
  /// is never counted.
  __device__ __forceinline__ Threshold find_threshold(int k) {
    uint32_t most = 0;
    for_each([&](int, uint32_t key) { most = max(most, key); });
    most = __reduce_max_sync(kAll, most);
    Threshold found{0, size_};
#pragma unroll 1
    for (uint32_t bit = 1U << 31; bit != 0; bit /= 2) {
      const uint32_t key = found.key | bit;
      if (key > most) continue;
      const int count = count_if([key](uint32_t other) { return other >= key; });
      if (count >= k) found.key = key;
      if (count == k) return found;  // the k largest are those that reach it, however many equal it
    }
    found.of_equal = k - count_if([&](uint32_t other) { return other > found.key; });
    return found;
  }

 private:
  /// Over the whole row.
  template <class Predicate>
  __device__ __forceinline__ int count_if(const Predicate& predicate) {
    unsigned count = 0;
    for_each([&](int, uint32_t key) { count += predicate(key) ? 1U : 0U; });
    return static_cast<int>(__reduce_add_sync(kAll, count));
  }

  int size_;
  uint32_t keys_[kRegisters];
};

/// Writes what the row keeps, ascending, and -1 up to the pitch.
template <class KeyRow>
__device__ __forceinline__ void write_row(KeyRow& row, const Threshold& threshold, bool dense,
                                          const SelectParams& p, int64_t row_idx) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned before = (1U << lane) - 1;
  int32_t* index = p.lut.index + row_idx * p.lut.dims.pitch;
  int count = 0;
  int equal_left = threshold.of_equal;
  row.for_each([&](int j, uint32_t key) {
    const bool inside = j < row.size();
    const unsigned equal = __ballot_sync(kAll, inside && key == threshold.key);
    bool kept = inside && (dense || key > threshold.key);
    if ((equal >> lane & 1U) != 0 && __popc(equal & before) < equal_left) kept = true;
    equal_left -= min(equal_left, __popc(equal));
    const unsigned all_kept = __ballot_sync(kAll, kept);
    if (kept) index[count + __popc(all_kept & before)] = j;
    count += __popc(all_kept);
  });
  for (int64_t i = count + lane; i < p.lut.dims.pitch; i += 32) index[i] = -1;
  if (lane == 0) p.lut.count[row_idx] = count;
}

/// kRegisters: of a lane for keys; 0: none.
template <int kRegisters>
__global__ void __launch_bounds__(kWarps * 32)
    select_kernel(const __grid_constant__ SelectParams p) {
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
    const Threshold threshold = dense ? Threshold{0, 0} : row.find_threshold(p.num_kept);
    write_row(row, threshold, dense, p, row_idx);
  };
  if constexpr (kRegisters == 0) {
    __shared__ uint32_t bins[kWarps][kBins];
    select(LongRow(memory, bins[warp]));
  } else {
    select(ShortRow<kRegisters>(memory));
  }
}

/// One warp a row.
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

LaunchShape rows_shape(const LutDims& dims, cudaStream_t stream) {
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  return {.grid = dim3(static_cast<unsigned>((rows + kWarps - 1) / kWarps)),
          .block = dim3(kWarps * 32),
          .stream = stream};
}

int64_t words_for(int64_t bits) { return (bits + 31) / 32; }

Status upload_bits(std::string_view operation, std::span<const int32_t> list, int64_t num_bits,
                   int32_t* to, cudaStream_t stream) {
  if (list.empty()) return {};
  std::vector<int32_t> words(static_cast<size_t>(words_for(num_bits)), 0);
  for (const int32_t i : list) {
    words[static_cast<size_t>(i / 32)] |= static_cast<int32_t>(1U << (i % 32));
  }
  return upload(operation, words.data(), static_cast<int64_t>(words.size()), to, stream);
}

}  // namespace

SelectRules::SelectRules(Carver& workspace, const SelectOptions& options, int64_t num_q_tiles,
                         int64_t num_kv_tiles)
    : options_(options), num_q_tiles_(num_q_tiles), num_kv_tiles_(num_kv_tiles) {
  if (!options.forced_columns.empty()) forced_ = workspace.take<int32_t>(words_for(num_kv_tiles));
  if (!options.dense_rows.empty()) dense_ = workspace.take<int32_t>(words_for(num_q_tiles));
}

Status SelectRules::build(std::string_view operation, cudaStream_t stream) const {
  VSA_TRY(upload_bits(operation, options_.forced_columns, num_kv_tiles_, forced_, stream));
  return upload_bits(operation, options_.dense_rows, num_q_tiles_, dense_, stream);
}

void SelectRules::apply_to(SelectParams& params) const {
  params.forced = reinterpret_cast<const uint32_t*>(forced_);
  params.dense = reinterpret_cast<const uint32_t*>(dense_);
  params.num_kv_tiles = static_cast<int32_t>(num_kv_tiles_);
  params.num_kept = static_cast<int32_t>(std::min(
      num_kv_tiles_, options_.topk + static_cast<int64_t>(options_.forced_columns.size())));
}

Status run_select(std::string_view operation, const SelectParams& params, cudaStream_t stream) {
  const LaunchShape shape = rows_shape(params.lut.dims, stream);
  const int32_t size = params.num_kv_tiles;
  if (size <= 16 * 32) return launch(operation, select_kernel<16>, shape, params);
  if (size <= 24 * 32) return launch(operation, select_kernel<24>, shape, params);
  if (size <= 48 * 32) return launch(operation, select_kernel<48>, shape, params);
  if (size <= 64 * 32) return launch(operation, select_kernel<64>, shape, params);
  return launch(operation, select_kernel<0>, shape, params);
}

Status run_copy_lut(std::string_view operation, const ConstLut& from, const Lut& to,
                    cudaStream_t stream) {
  return launch(operation, copy_lut_kernel, rows_shape(from.dims, stream), from, to);
}

}  // namespace vsa::cuda
