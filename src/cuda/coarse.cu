// coarse: attention between tiles in fp32, as exact as the reference asks for (so no tensor cores):
// scores, each written once, then out = softmax(scores) v with one pass for the maxima and one for
// the products.
#include <cuda_bf16.h>

#include "src/cuda/coarse.h"
#include "src/cuda/launch.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kAll = ~0U;
constexpr float kMinusInfinity = -__builtin_huge_valf();

struct HeadIdx {
  int b, h, kv;
};
__device__ __forceinline__ HeadIdx head_of(const CoarseParams& p, unsigned idx) {
  const int h = static_cast<int>(idx) % p.num_heads;
  return {static_cast<int>(idx) / p.num_heads, h, h / p.group_size};
}

__device__ __forceinline__ float rounded(float x, CoarseRounding rounding) {
  return rounding == CoarseRounding::kNone ? x : __bfloat162float(__float2bfloat16_rn(x));
}

// --- scores --------------------------------------------------------------------------------------

constexpr int kTile = 64;   // scores of a CTA: 64 x 64, of a thread: 4 x 4
constexpr int kDepth = 16;  // of head_dim at a time
constexpr int kPad = 4;     // keeps the transposed rows on different banks

/// Loads rows first to first + 63, columns `depth` and 15 more, transposed; rows beyond the end are
/// 0.
__device__ __forceinline__ void load_transposed(float (&to)[kDepth][kTile + kPad],
                                                const float* from, int64_t stride, int rows,
                                                int depth, CoarseRounding rounding) {
  const int column = static_cast<int>(threadIdx.x) % kDepth;
  for (int row = static_cast<int>(threadIdx.x) / kDepth; row < kTile; row += kThreads / kDepth) {
    to[column][row] =
        row < rows ? rounded(__ldg(from + row * stride + depth + column), rounding) : 0.0F;
  }
}

/// grid: x kv tiles / 64, y query tiles / 64, z batch * heads
__global__ void __launch_bounds__(kThreads)
    coarse_scores_kernel(const __grid_constant__ CoarseParams p) {
  __shared__ float q_smem[kDepth][kTile + kPad];
  __shared__ float k_smem[kDepth][kTile + kPad];
  const HeadIdx head = head_of(p, blockIdx.z);
  const int i0 = static_cast<int>(blockIdx.y) * kTile;
  const int j0 = static_cast<int>(blockIdx.x) * kTile;
  const float* q =
      static_cast<const float*>(p.q.data) + head.b * p.q.batch + head.h * p.q.head + i0 * p.q.seq;
  const float* k =
      static_cast<const float*>(p.k.data) + head.b * p.k.batch + head.kv * p.k.head + j0 * p.k.seq;
  const int ti = static_cast<int>(threadIdx.x) / 16 * 4;
  const int tj = static_cast<int>(threadIdx.x) % 16 * 4;
  float sum[4][4] = {};
  for (int depth = 0; depth < p.head_dim; depth += kDepth) {
    load_transposed(q_smem, q, p.q.seq, p.num_q_tiles - i0, depth, p.rounding);
    load_transposed(k_smem, k, p.k.seq, p.num_kv_tiles - j0, depth, p.rounding);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const float4 a = *reinterpret_cast<const float4*>(&q_smem[d][ti]);
      const float4 b = *reinterpret_cast<const float4*>(&k_smem[d][tj]);
      const float as[4] = {a.x, a.y, a.z, a.w};
      const float bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(as[i], bs[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  float* to = static_cast<float*>(p.scores.data) + head.b * p.scores.batch + head.h * p.scores.head;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int column = j0 + tj + j;
    if (column >= p.num_kv_tiles) continue;
    const bool empty = p.kv_len[column] == 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i0 + ti + i;
      if (row < p.num_q_tiles) {
        const float score = rounded(rounded(sum[i][j], p.rounding) * p.scale, p.rounding);
        to[row * p.scores.seq + column] = empty ? kMinusInfinity : score;
      }
    }
  }
}

// --- out -----------------------------------------------------------------------------------------

constexpr int kRows = 16;   // query tiles of a CTA
constexpr int kChunk = 32;  // kv tiles at a time
constexpr float kLog2E = 1.4426950408889634F;

/// grid: x query tiles / 16, y batch * heads. Threads: kHeadDim / 4 across, the others down.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    coarse_out_kernel(const __grid_constant__ CoarseParams p) {
  constexpr int kAcross = kHeadDim / 4;
  constexpr int kRowsOfThread = kRows * kAcross / kThreads;
  __shared__ float weights[kRows][kChunk];
  __shared__ float4 v_smem[kChunk][kAcross];
  __shared__ float max_smem[kRows];
  __shared__ float inverse_smem[kRows];
  const HeadIdx head = head_of(p, blockIdx.y);
  const int i0 = static_cast<int>(blockIdx.x) * kRows;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* scores = static_cast<const float*>(p.scores.data) + head.b * p.scores.batch +
                        head.h * p.scores.head + i0 * p.scores.seq;
  const float* v = static_cast<const float*>(p.v.data) + head.b * p.v.batch + head.kv * p.v.head;

  // Maximum and normaliser of each row, one warp a row.
  for (int row = warp; row < kRows; row += kThreads / 32) {
    float most = kMinusInfinity;
    float sum = 0.0F;
    if (i0 + row < p.num_q_tiles) {
      const float* s = scores + row * p.scores.seq;
      for (int j = lane; j < p.num_kv_tiles; j += 32) most = fmaxf(most, s[j]);
      for (int mask = 16; mask > 0; mask /= 2)
        most = fmaxf(most, __shfl_xor_sync(kAll, most, mask));
      // Without a finite score there is nothing to subtract: exp2(-inf) is the right 0, and NaN
      // stays.
      if (most == kMinusInfinity) most = 0.0F;
      for (int j = lane; j < p.num_kv_tiles; j += 32) sum += exp2f((s[j] - most) * kLog2E);
      for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAll, sum, mask);
    }
    if (lane == 0) {
      max_smem[row] = most;
      inverse_smem[row] = sum == 0.0F ? 0.0F : 1.0F / sum;  // 0: no kv tile has a token
    }
  }

  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross * kRowsOfThread;
  // Probabilities that are rounded have to be there before the product, not after it.
  const bool rounds = p.rounding != CoarseRounding::kNone;
  float4 out[kRowsOfThread] = {};
  for (int j0 = 0; j0 < p.num_kv_tiles; j0 += kChunk) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunk; i += kThreads) {
      const int row = i / kChunk;
      const int j = j0 + i % kChunk;
      const bool inside = i0 + row < p.num_q_tiles && j < p.num_kv_tiles;
      const float weight =
          inside ? exp2f((scores[row * p.scores.seq + j] - max_smem[row]) * kLog2E) : 0.0F;
      weights[row][i % kChunk] = rounds ? rounded(weight * inverse_smem[row], p.rounding) : weight;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * kHeadDim; i += kThreads) {
      const int j = j0 + i / kHeadDim;
      reinterpret_cast<float*>(v_smem)[i] =
          j < p.num_kv_tiles ? rounded(__ldg(v + j * p.v.seq + i % kHeadDim), p.rounding) : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      const float4 value = v_smem[j][across];
#pragma unroll
      for (int row = 0; row < kRowsOfThread; ++row) {
        const float w = weights[down + row][j];
        out[row].x = fmaf(w, value.x, out[row].x);
        out[row].y = fmaf(w, value.y, out[row].y);
        out[row].z = fmaf(w, value.z, out[row].z);
        out[row].w = fmaf(w, value.w, out[row].w);
      }
    }
  }
  float* to = static_cast<float*>(p.out.data) + head.b * p.out.batch + head.h * p.out.head;
#pragma unroll
  for (int row = 0; row < kRowsOfThread; ++row) {
    const int i = i0 + down + row;
    if (i >= p.num_q_tiles) continue;
    const float inverse = rounds ? 1.0F : inverse_smem[down + row];
    float* at = to + i * p.out.seq + across * 4;
    at[0] = rounded(out[row].x * inverse, p.rounding);
    at[1] = rounded(out[row].y * inverse, p.rounding);
    at[2] = rounded(out[row].z * inverse, p.rounding);
    at[3] = rounded(out[row].w * inverse, p.rounding);
  }
}

unsigned ceil_div(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace

Status run_coarse(std::string_view operation, const CoarseParams& params, int64_t batch,
                  cudaStream_t stream) {
  const auto heads = static_cast<unsigned>(batch * params.num_heads);
  VSA_TRY(launch(operation, coarse_scores_kernel,
                 {.grid = dim3(ceil_div(params.num_kv_tiles, kTile),
                               ceil_div(params.num_q_tiles, kTile), heads),
                  .block = dim3(kThreads),
                  .stream = stream},
                 params));
  if (params.out.data == nullptr) return {};
  const LaunchShape shape{.grid = dim3(ceil_div(params.num_q_tiles, kRows), heads),
                          .block = dim3(kThreads),
                          .stream = stream};
  return params.head_dim == 128 ? launch(operation, coarse_out_kernel<128>, shape, params)
                                : launch(operation, coarse_out_kernel<64>, shape, params);
}

}  // namespace vsa::cuda
