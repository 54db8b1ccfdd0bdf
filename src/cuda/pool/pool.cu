// pool: the mean of the tokens of each tile, for up to three tensors in one launch.
//
//   x in the caller's layout -> sums in registers -> groups added in shared memory -> / tile_len
//
// A CTA processes one tile of some heads. Its threads form two groups, and each group adds up one
// half of the tile's tokens: a thread reads the same 8 adjacent elements (16 bytes) of one head in
// every token of its group. Two groups halve the time of a CTA, so the last CTAs of the grid end
// sooner. Shared memory: positions of the tokens 1 KiB, partial sums 8 KiB. Barriers: __syncthreads
// after the positions and after the partial sums.
#include <algorithm>

#include "src/cuda/plan/tile_positions.h"
#include "src/cuda/pool/pool.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kElements = 8;   // of a thread, 16 bytes
constexpr int kInFlight = 16;  // loads that a thread issues before it uses the first one
// CTAs on a multiprocessor, for __launch_bounds__. Two suffice, and ptxas must know this: otherwise
// it saves registers by having no more than two loads of a thread in flight.
constexpr int kCtas = 2;
constexpr int kGroups = 2;  // of threads, each with one half of the tokens

template <class T>
__device__ __forceinline__ void add(const uint4& raw, float (&sum)[kElements]) {
  const uint32_t pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 both = HalfType<T>::unpack(pairs[j]);
    sum[2 * j] += both.x;
    sum[2 * j + 1] += both.y;
  }
}

/// grid: x tiles of all tensors one after the other, y pieces of 8 of the heads * head_dim elements
/// of a token / threads of a group, z batch
template <class T>
__global__ void __launch_bounds__(kMaxThreads, kCtas)
    pool_kernel(const __grid_constant__ PoolParams params) {
  __shared__ int32_t positions[kMaxTileRows];
  __shared__ float partial[kElements][kMaxThreads];
  pdl_wait_and_trigger();
  int tile = static_cast<int>(blockIdx.x);
  int which = 0;
  while (tile >= params.part[which].plan.shape.num_tiles) {
    tile -= params.part[which].plan.shape.num_tiles;
    ++which;
  }
  const PoolPart& part = params.part[which];
  const int len = part.plan.tile_len[tile];
  tile_positions(part.plan, tile, positions);

  const int width = static_cast<int>(blockDim.x) / kGroups;
  const int group = static_cast<int>(threadIdx.x) / width;
  const int piece = static_cast<int>(blockIdx.y) * width + static_cast<int>(threadIdx.x) % width;
  const int pieces_per_head = params.head_dim / kElements;
  const int head = piece / pieces_per_head;
  const bool active = head < part.num_heads;
  const int column = piece % pieces_per_head * kElements;
  const T* x =
      static_cast<const T*>(part.x.data) + blockIdx.z * part.x.batch + head * part.x.head + column;

  float sum[kElements] = {};
  const auto load = [&](int i) {
    return __ldcs(reinterpret_cast<const uint4*>(x + positions[i] * part.x.seq));
  };
  int i = active ? len * group / kGroups : 0;
  const int end = active ? len * (group + 1) / kGroups : 0;
  for (; i + kInFlight <= end; i += kInFlight) {
    uint4 raw[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) raw[j] = load(i + j);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) add<T>(raw[j], sum);
  }
  for (; i < end; ++i) add<T>(load(i), sum);
#pragma unroll
  for (int j = 0; j < kElements; ++j) partial[j][threadIdx.x] = sum[j];
  __syncthreads();
  if (group > 0 || !active) return;
#pragma unroll
  for (int g = 1; g < kGroups; ++g) {
#pragma unroll
    for (int j = 0; j < kElements; ++j) sum[j] += partial[j][threadIdx.x + g * width];
  }
  float* to = static_cast<float*>(part.pooled.data) + blockIdx.z * part.pooled.batch +
              head * part.pooled.head + tile * part.pooled.seq + column;
  const float divisor = len > 0 ? static_cast<float>(len) : 1.0F;
#pragma unroll
  for (int j = 0; j < kElements; ++j) to[j] = sum[j] / divisor;
}

}  // namespace

Status run_pool(const CallSite& at, const PoolParams& params, DType dtype, int64_t batch) {
  if (params.num_parts == 0) return {};
  int64_t tiles = 0;
  int64_t heads = 0;
  for (int i = 0; i < params.num_parts; ++i) {
    tiles += params.part[i].plan.shape.num_tiles;
    heads = std::max<int64_t>(heads, params.part[i].num_heads);
  }
  const int64_t pieces = heads * params.head_dim / kElements;
  // As many threads as divide the pieces evenly among the CTAs, rounded up to whole warps.
  constexpr int64_t kMaxWidth = kMaxThreads / kGroups;
  constexpr int64_t kMultiple = 32 / kGroups;
  const int64_t ctas = (pieces + kMaxWidth - 1) / kMaxWidth;
  const int64_t width = ((pieces + ctas - 1) / ctas + kMultiple - 1) / kMultiple * kMultiple;
  const LaunchShape shape{.grid = dim3(grid_extent(tiles), grid_extent(ctas), grid_extent(batch)),
                          .block = dim3(static_cast<unsigned>(width * kGroups)),
                          .overlaps_previous = true};
  return dtype == DType::kBF16 ? launch(at, pool_kernel<__nv_bfloat16>, shape, params)
                               : launch(at, pool_kernel<__half>, shape, params);
}

}  // namespace vsa::cuda
