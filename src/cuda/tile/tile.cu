// tile and untile: copy tokens from the caller's order to tile order, and back.
//
//   tile     x[position of each token] -> tiled[place in the tile]; padding places 0
//   untile   tiled[place in the tile] -> x[position of each token]; padding positions 0
//
// A CTA processes one tile of one head; a thread copies 16 bytes of a row. Shared memory: positions
// of the tokens, 1 KiB.
#include "src/cuda/plan/tile_positions.h"
#include "src/cuda/tile/tile.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;  // of a thread, 16 bytes

/// grid: x tiles, y heads, z batch
template <class AnyRows>
__device__ __forceinline__ int64_t head_offset(const AnyRows& rows) {
  return blockIdx.z * rows.batch + blockIdx.y * rows.head;
}

/// Copies rows of any 16-bit type in pieces of 16 bytes. `slot` is the index of a row in tile
/// order.
template <bool kToTileOrder>
__global__ void __launch_bounds__(kThreads)
    reorder_kernel(const __grid_constant__ ReorderParams p) {
  __shared__ int32_t positions[kMaxTileRows];
  const int tile = static_cast<int>(blockIdx.x);
  const int rows = tile_positions(p.plan, tile, positions);
  const int len = p.plan.tile_len[tile];
  const int tile_tokens = p.plan.shape.tile_tokens;
  const int pieces = p.head_dim / kElements;
  const uint16_t* from = static_cast<const uint16_t*>(p.from.data) + head_offset(p.from);
  uint16_t* to = static_cast<uint16_t*>(p.to.data) + head_offset(p.to);
  const int written = kToTileOrder ? tile_tokens : rows;
  for (int i = static_cast<int>(threadIdx.x); i < written * pieces; i += kThreads) {
    const int row = i / pieces;
    const int column = i % pieces * kElements;
    const int64_t slot = static_cast<int64_t>(tile) * tile_tokens + row;
    const int64_t position = row < rows ? positions[row] : 0;
    uint4 piece{0, 0, 0, 0};
    if (row < len) {
      piece = __ldg(reinterpret_cast<const uint4*>(
          from + (kToTileOrder ? position : slot) * p.from.seq + column));
    }
    *reinterpret_cast<uint4*>(to + (kToTileOrder ? slot : position) * p.to.seq + column) = piece;
  }
}

LaunchShape shape_of(const ReorderParams& params, int64_t batch) {
  return {.grid = dim3(grid_extent(params.plan.shape.num_tiles), grid_extent(params.num_heads),
                       grid_extent(batch)),
          .block = dim3(kThreads)};
}

}  // namespace

Status run_tile(const CallSite& at, const ReorderParams& params, int64_t batch) {
  return launch(at, reorder_kernel<true>, shape_of(params, batch), params);
}
Status run_untile(const CallSite& at, const ReorderParams& params, int64_t batch) {
  return launch(at, reorder_kernel<false>, shape_of(params, batch), params);
}

}  // namespace vsa::cuda
