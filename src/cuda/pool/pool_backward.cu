// pool_backward: the gradient of a tile's mean, divided by tile_len, for each of its tokens.
//
//   dpooled of the tile / tile_len -> registers -> dx of every token of the tile; 0 in padding rows
//
// A CTA processes one tile of one head; a thread stores 8 adjacent elements (16 bytes) of every
// kThreads / (head_dim / 8)-th row. Shared memory: positions of the tokens, 1 KiB.
#include "src/cuda/plan/token_pieces.h"
#include "src/cuda/pool/pool.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads)
    pool_backward_kernel(const __grid_constant__ PoolBackwardParams p) {
  __shared__ int32_t positions[kMaxTileRows];
  const Place place(p.num_heads);
  const int rows = tile_positions(p.plan, place.tile, positions);
  const int len = p.plan.tile_len[place.tile];
  const int pieces = p.head_dim / kElements;
  const int column = static_cast<int>(threadIdx.x) % pieces * kElements;
  Piece share{};
  if (p.dpooled.data != nullptr && len > 0) {
    const float* from =
        static_cast<const float*>(p.dpooled.data) + place.offset(p.dpooled, place.tile) + column;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      share.x[j] = __ldg(from + j) / static_cast<float>(len);
    }
  }
  const uint4 raw = share.template pack<T>();
  for (int row = static_cast<int>(threadIdx.x) / pieces; row < rows; row += kThreads / pieces) {
    const Token<T> token(place, positions[row], column);
    token.store(p.dx, row < len ? raw : uint4{});
  }
}

}  // namespace

Status run_pool_backward(const CallSite& at, const PoolBackwardParams& params, DType dtype,
                         int64_t batch) {
  const LaunchShape shape = shape_of_tiles(params, batch, kThreads);
  return dtype == DType::kBF16 ? launch(at, pool_backward_kernel<__nv_bfloat16>, shape, params)
                               : launch(at, pool_backward_kernel<__half>, shape, params);
}

}  // namespace vsa::cuda
