// Gradients of the coarse stage, from its scores, by three kernels:
//
//   coarse_rows_kernel      scores, dout, out -> maximum, 1 / sum, delta = dout . out of each row
//   coarse_dscores_kernel   dp = dout v^T; p = softmax(scores), which replaces the scores;
//                           ds = scale p (dp - delta)
//   coarse_products_kernel  dk = ds^T q, dv = p^T dout, summed over the heads of a group; dq = ds k
//
// coarse_rows_kernel uses one warp for each row and no shared memory. In the two others a CTA of 4
// warps computes 64 x 64 elements of a product (tf32_product.h, which has the shared memory plan:
// 30 KiB).
#include "src/cuda/coarse/coarse_backward.h"
#include "src/cuda/coarse/coarse_device.h"
#include "src/cuda/coarse/tf32_product.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda {
namespace {

constexpr int kWarpsOfRows = 8;
template <class AnyRows>
__device__ __forceinline__ auto* at(const AnyRows& rows, int b, int h, int64_t row) {
  using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(rows.data)>>,
                                     const float, float>;
  return static_cast<Element*>(rows.data) + b * rows.batch + h * rows.head + row * rows.seq;
}

// --- rows ----------------------------------------------------------------------------------------

/// grid: x rows / 8, y batch * heads
__global__ void __launch_bounds__(kWarpsOfRows * 32)
    coarse_rows_kernel(const __grid_constant__ CoarseBackwardParams p) {
  const CoarseParams& f = p.forward;
  const HeadIdx head = head_of(f, blockIdx.y);
  const int row = static_cast<int>(blockIdx.x * kWarpsOfRows + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= f.num_q_tiles) return;
  float* scores = at(f.scores, head.b, head.h, row);
  float max = kMinusInfinity;
  for (int j = lane; j < f.num_kv_tiles; j += 32) max = fmaxf(max, scores[j]);
  for (int mask = 16; mask > 0; mask /= 2) max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, mask));
  max = softmax_offset(max);
  float sum = 0.0F;
  for (int j = lane; j < f.num_kv_tiles; j += 32) sum += exp2f((scores[j] - max) * kLog2E);
  const float* dout = at(p.dout, head.b, head.h, row);
  const float* out = at(f.out, head.b, head.h, row);
  float delta = 0.0F;
  for (int d = lane; d < f.head_dim; d += 32) delta = fmaf(dout[d], out[d], delta);
  for (int mask = 16; mask > 0; mask /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, mask);
    delta += __shfl_xor_sync(kAllLanes, delta, mask);
  }
  // The next kernels read and write whole 16 bytes, so the gap after the row must hold numbers.
  const int end = (f.num_kv_tiles + 3) / 4 * 4;
  if (f.num_kv_tiles + lane < end) scores[f.num_kv_tiles + lane] = 0.0F;
  if (lane == 0) {
    p.row_stats[static_cast<int64_t>(blockIdx.y) * f.num_q_tiles + row] = {
        max, sum == 0.0F ? 0.0F : 1.0F / sum, delta, 0.0F};
  }
}

// --- products ------------------------------------------------------------------------------------

constexpr int kEdge = Tf32Product::kEdge;
constexpr int kThreads = Tf32Product::kThreads;
constexpr int kCtasOfSm = 5;  // on a multiprocessor

/// grid: x kv tiles / 64, y query tiles / 64, z batch * heads
__global__ void __launch_bounds__(kThreads, kCtasOfSm)
    coarse_dscores_kernel(const __grid_constant__ CoarseBackwardParams p) {
  __shared__ Tf32Product::Smem smem;
  const CoarseParams& f = p.forward;
  const HeadIdx head = head_of(f, blockIdx.z);
  const int i0 = static_cast<int>(blockIdx.y) * kEdge;
  const int j0 = static_cast<int>(blockIdx.x) * kEdge;
  Tf32Product dp(smem);
  dp.add<true, true>({at(p.dout, head.b, head.h, i0), p.dout.seq, 1, f.num_q_tiles - i0},
                     {at(f.v, head.b, head.kv, j0), f.v.seq, 1, f.num_kv_tiles - j0}, f.head_dim);
  const CoarseRowStats* stats = p.row_stats + static_cast<int64_t>(blockIdx.z) * f.num_q_tiles;
  dp.for_each_pair([&](int row, int column, const float2& x) {
    const int i = i0 + row;
    const int j = j0 + column;
    if (i >= f.num_q_tiles || j >= f.num_kv_tiles) return;
    const CoarseRowStats of_row = stats[i];
    float2* scores = reinterpret_cast<float2*>(at(f.scores, head.b, head.h, i) + j);
    const float2 s = *scores;
    const float2 weight{exp2f((s.x - of_row.max) * kLog2E) * of_row.inverse_sum,
                        exp2f((s.y - of_row.max) * kLog2E) * of_row.inverse_sum};
    *scores = weight;
    *reinterpret_cast<float2*>(at(p.dscores, head.b, head.h, i) + j) = float2{
        f.scale * weight.x * (x.x - of_row.delta), f.scale * weight.y * (x.y - of_row.delta)};
  });
}

/// Stores 64 x 64 elements from `to` on, except rows from `rows` on.
__device__ __forceinline__ void store_part(const Tf32Product& sum, float* to, int64_t stride,
                                           int rows) {
  sum.for_each_pair([&](int row, int column, const float2& x) {
    if (row >= rows) return;
    to[row * stride + column] = x.x;
    to[row * stride + column + 1] = x.y;
  });
}

/// grid: x kv tiles / 64 for dk, as many for dv, query tiles / 64 for dq; y head_dim / 64; z batch
/// * heads, of which dk and dv use the first batch * kv heads
__global__ void __launch_bounds__(kThreads, kCtasOfSm)
    coarse_products_kernel(const __grid_constant__ CoarseBackwardParams p) {
  __shared__ Tf32Product::Smem smem;
  const CoarseParams& f = p.forward;
  const int kv_blocks = (f.num_kv_tiles + kEdge - 1) / kEdge;
  const int d0 = static_cast<int>(blockIdx.y) * kEdge;
  const auto block = static_cast<int>(blockIdx.x);
  Tf32Product sum(smem);
  if (block >= 2 * kv_blocks) {
    const HeadIdx head = head_of(f, blockIdx.z);
    const int i0 = (block - 2 * kv_blocks) * kEdge;
    sum.add<true, false>({at(p.dscores, head.b, head.h, i0), p.dscores.seq, 1, f.num_q_tiles - i0},
                         {at(f.k, head.b, head.kv, 0) + d0, 1, f.k.seq, kEdge}, f.num_kv_tiles);
    store_part(sum, at(p.dq, head.b, head.h, i0) + d0, p.dq.seq, f.num_q_tiles - i0);
    return;
  }
  const int kv_heads = f.num_heads / f.group_size;
  const int b = static_cast<int>(blockIdx.z) / kv_heads;
  const int kv = static_cast<int>(blockIdx.z) % kv_heads;
  if (static_cast<int>(blockIdx.z) >= static_cast<int>(gridDim.z) / f.group_size) return;
  const bool is_dv = block >= kv_blocks;
  const int j0 = (is_dv ? block - kv_blocks : block) * kEdge;
  for (int h = kv * f.group_size; h < (kv + 1) * f.group_size; ++h) {
    const float* weights = is_dv ? at(f.scores, b, h, 0) : at(p.dscores, b, h, 0);
    const ConstRows& x = is_dv ? p.dout : f.q;
    sum.add<false, false>({weights + j0, 1, f.scores.seq, f.num_kv_tiles - j0},
                          {at(x, b, h, 0) + d0, 1, x.seq, kEdge}, f.num_q_tiles);
  }
  const Rows& to = is_dv ? p.dv : p.dk;
  store_part(sum, at(to, b, kv, j0) + d0, to.seq, f.num_kv_tiles - j0);
}

}  // namespace

Status run_coarse_backward(const CallSite& at, const CoarseBackwardParams& params, int64_t batch) {
  const CoarseParams& f = params.forward;
  const auto heads = grid_extent(batch * f.num_heads);
  const unsigned q_blocks = grid_extent(f.num_q_tiles, kEdge);
  const unsigned kv_blocks = grid_extent(f.num_kv_tiles, kEdge);
  VSA_TRY(launch(at, coarse_rows_kernel,
                 {.grid = dim3(grid_extent(f.num_q_tiles, kWarpsOfRows), heads),
                  .block = dim3(kWarpsOfRows * 32)},
                 params));
  VSA_TRY(launch(at, coarse_dscores_kernel,
                 {.grid = dim3(kv_blocks, q_blocks, heads), .block = dim3(kThreads)}, params));
  return launch(
      at, coarse_products_kernel,
      {.grid = dim3(2 * kv_blocks + q_blocks, static_cast<unsigned>(f.head_dim / kEdge), heads),
       .block = dim3(kThreads)},
      params);
}

}  // namespace vsa::cuda
