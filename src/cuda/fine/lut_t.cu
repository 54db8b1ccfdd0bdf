// Transposes look-up tables (lut_t.h) by three kernels:
//
//   count_kernel   lut -> bitmap, one bit for each pair of query tile and kv tile
//                      -> number of query tiles that keep each kv tile -> offset
//   scan_kernel    offset -> prefix sums of offset, one CTA
//   fill_kernel    bitmap, offset -> index: the query tiles that keep each kv tile, ascending
//
// In count_kernel and fill_kernel a CTA of 16 warps processes 32 kv tiles of one head, and each
// warp a range of rows of the table. A lane processes one row at a time. One word of the bitmap
// says which of the 32 kv tiles the row keeps. 32 ballots, one for each bit, transpose the words of
// the 32 lanes, so that the rows that keep a kv tile are known in ascending order. Shared memory: 2
// KiB, a count for each warp and kv tile; scan_kernel 256 bytes. Barriers: __syncthreads after the
// counts.
#include "src/cuda/fine/lut_t.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kColumns = 32;  // kv tiles of a CTA
constexpr int kWindow = 8;    // entries of a row that are loaded together
constexpr int kScanThreads = 1024;

struct LutTParams {
  ConstLut lut;
  int32_t num_kv_tiles;
  uint32_t* bitmap;  // [B * H, Nk / 32, Nq]
  int64_t* offset;
  int32_t* index;
};

/// The rows of the table that a warp processes, and the kv tiles of its CTA.
struct Place {
  int64_t head;          // of B * H
  int32_t first_column;  // the first kv tile
  int32_t first_row, last_row;
  uint32_t* words;  // of the bitmap for the CTA's kv tiles: [Nq]

  __device__ explicit Place(const LutTParams& p)
      : head(blockIdx.y), first_column(static_cast<int32_t>(blockIdx.x) * kColumns) {
    const auto num_rows = static_cast<int32_t>(p.lut.dims.num_q_tiles);
    const int32_t rows_of_warp = (num_rows + kWarps * 32 - 1) / (kWarps * 32) * 32;
    first_row = min(num_rows, static_cast<int32_t>(threadIdx.x / 32) * rows_of_warp);
    last_row = min(num_rows, first_row + rows_of_warp);
    words = p.bitmap + (head * gridDim.x + blockIdx.x) * num_rows;
  }
};

/// Bit c: row `row` keeps kv tile first_column + c.
__device__ uint32_t kept_columns(const LutTParams& p, const Place& place, int32_t row) {
  const int64_t row_idx = place.head * p.lut.dims.num_q_tiles + row;
  const auto pitch = static_cast<int32_t>(p.lut.dims.pitch);
  const int32_t count = max(0, min(p.lut.count[row_idx], pitch));
  const int32_t* index = p.lut.index + row_idx * p.lut.dims.pitch;
  // Binary search: entries before `low` are below first_column, those from `high` on are not.
  int32_t low = 0;
  int32_t high = count;
  while (high - low > kWindow) {
    const int32_t middle = (low + high) / 2;
    if (__ldg(index + middle) < place.first_column) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const int32_t end = min(p.num_kv_tiles, place.first_column + kColumns);
  uint32_t kept = 0;
  for (int32_t tile = INT32_MIN; low < count && tile < end; low += kWindow) {
    int32_t tiles[kWindow];
#pragma unroll
    for (int i = 0; i < kWindow; ++i) tiles[i] = low + i < count ? __ldg(index + low + i) : end;
#pragma unroll
    for (int i = 0; i < kWindow; ++i) {
      tile = tiles[i];
      if (tile >= place.first_column && tile < end) kept |= 1U << (tile - place.first_column);
    }
  }
  return kept;
}

/// Returns in lane c how many of the warp's rows keep kv tile first_column + c. word(row) returns
/// the bitmap word of a row.
template <class Word>
__device__ __forceinline__ int32_t count_columns(const Place& place, const Word& word) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  int32_t count = 0;
  for (int32_t row = place.first_row; row < place.last_row; row += 32) {
    const uint32_t kept = row + lane < place.last_row ? word(row + lane) : 0;
    for (int32_t c = 0; c < kColumns; ++c) {
      const unsigned rows = __ballot_sync(kAllLanes, (kept >> c & 1U) != 0);
      if (lane == c) count += __popc(rows);
    }
  }
  return count;
}

/// grid: x kv tiles / 32, y batch * heads. Writes the bitmap, and the length of list r to offset[r
/// + 1].
__global__ void __launch_bounds__(kWarps * 32, 2)
    count_kernel(const __grid_constant__ LutTParams p) {
  __shared__ int32_t counts[kWarps][kColumns];
  const Place place(p);
  counts[threadIdx.x / 32][threadIdx.x % 32] = count_columns(place, [&](int32_t row) {
    const uint32_t kept = kept_columns(p, place, row);
    place.words[row] = kept;
    return kept;
  });
  __syncthreads();
  const auto column = place.first_column + static_cast<int32_t>(threadIdx.x);
  if (threadIdx.x >= kColumns || column >= p.num_kv_tiles) return;
  int32_t sum = 0;
  for (const auto& of_warp : counts) sum += of_warp[threadIdx.x];
  p.offset[place.head * p.num_kv_tiles + column + 1] = sum;
  if (place.head == 0 && column == 0) p.offset[0] = 0;
}

__device__ __forceinline__ int64_t warp_scan(int64_t x) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int step = 1; step < 32; step *= 2) {
    const int64_t other = __shfl_up_sync(kAllLanes, x, step);
    if (lane >= step) x += other;
  }
  return x;
}

/// Replaces x[i] by x[0] + ... + x[i]. One CTA.
__global__ void __launch_bounds__(kScanThreads) scan_kernel(int64_t* x, int64_t size) {
  __shared__ int64_t totals[kScanThreads / 32];
  const auto warp = threadIdx.x / 32;
  int64_t before = 0;
  int64_t next = threadIdx.x < size ? x[threadIdx.x] : 0;
  for (int64_t first = 0; first < size; first += kScanThreads) {
    const int64_t i = first + threadIdx.x;
    const int64_t sum = warp_scan(next);
    next = i + kScanThreads < size ? x[i + kScanThreads] : 0;
    if (threadIdx.x % 32 == 31) totals[warp] = sum;
    __syncthreads();
    if (warp == 0) totals[threadIdx.x] = warp_scan(totals[threadIdx.x]);
    __syncthreads();
    if (i < size) x[i] = before + sum + (warp == 0 ? 0 : totals[warp - 1]);
    before += totals[kScanThreads / 32 - 1];
    __syncthreads();
  }
}

/// grid: that of count_kernel
__global__ void __launch_bounds__(kWarps * 32, 2)
    fill_kernel(const __grid_constant__ LutTParams p) {
  __shared__ int32_t counts[kWarps][kColumns];
  const Place place(p);
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  counts[warp][lane] = count_columns(place, [&](int32_t row) { return place.words[row]; });
  __syncthreads();
  const int32_t column = place.first_column + lane;
  int64_t next = 0;  // in lane c: where the next row that keeps kv tile c is written
  if (column < p.num_kv_tiles) next = p.offset[place.head * p.num_kv_tiles + column];
  for (int32_t w = 0; w < warp; ++w) next += counts[w][lane];
  for (int32_t row = place.first_row; row < place.last_row; row += 32) {
    const uint32_t kept = row + lane < place.last_row ? place.words[row + lane] : 0;
    for (int32_t c = 0; c < kColumns; ++c) {
      const bool keeps = (kept >> c & 1U) != 0;
      const unsigned rows = __ballot_sync(kAllLanes, keeps);
      const int64_t at = __shfl_sync(kAllLanes, next, c) + __popc(rows & ((1U << lane) - 1));
      if (keeps) p.index[at] = row + lane;
      if (lane == c) next += __popc(rows);
    }
  }
}

}  // namespace

TransposedLut::TransposedLut(Carver& workspace, const LutDims& dims, int64_t num_kv_tiles)
    : num_kv_tiles_(num_kv_tiles),
      bitmap_(workspace.take<uint32_t>(dims.batch, dims.num_heads, dims.num_q_tiles,
                                       (num_kv_tiles + kColumns - 1) / kColumns)),
      offset_(workspace.take<int64_t>(dims.batch * dims.num_heads * num_kv_tiles + 1)),
      index_(workspace.take<int32_t>(dims.batch, dims.num_heads, dims.num_q_tiles, dims.pitch)) {}

Status TransposedLut::build(const CallSite& at, const ConstLut& lut) const {
  const LutTParams params{.lut = lut,
                          .num_kv_tiles = static_cast<int32_t>(num_kv_tiles_),
                          .bitmap = bitmap_,
                          .offset = offset_,
                          .index = index_};
  const int64_t heads = lut.dims.batch * lut.dims.num_heads;
  const LaunchShape shape{.grid = dim3(grid_extent(num_kv_tiles_, kColumns), grid_extent(heads)),
                          .block = dim3(kWarps * 32)};
  VSA_TRY(launch(at, count_kernel, shape, params));
  VSA_TRY(launch(at, scan_kernel, {.grid = dim3(1), .block = dim3(kScanThreads)}, offset_,
                 heads * num_kv_tiles_ + 1));
  return launch(at, fill_kernel, shape, params);
}

}  // namespace vsa::cuda
