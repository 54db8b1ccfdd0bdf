// relative_attention: softmax attention with a bias for each distance, for prompts.
//
//   q [16 queries] --+
//   k [32 keys] -----+-> scores, a key a lane -> + bias -> new maximum -> weights --+
//   v [32 keys] -------------------------------------------------------------------+-> sums -> out
//
// A CTA of 4 warps has 16 queries of one head, 4 of each warp, and goes through the keys in tiles
// of 32, which all warps share as f32. For the scores a lane has a key of the tile, for the sums
// the columns lane, lane + 32, ... of the values; weights go from lane to lane by shuffles. The
// maximum is that of the keys so far, and earlier sums are scaled when it grows.
//
// 512 tokens of 64 heads of 64 are 4.3 GFLOP in plain f32, and run once for each layer of a text
// encoder: tensor cores would save less than a millisecond of a layer whose weights take 8 ms to
// come from the host.
// Shared memory: 32 * 129 + 32 * 128 + 16 * 128 numbers, 41 KB. The 129th column puts the keys of a
// warp into different banks. Barriers: __syncthreads before and after a tile is loaded.
#include "src/cuda/relative_attention/relative_attention.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kQueriesOfWarp = 4, kQueries = kWarps * kQueriesOfWarp;
constexpr int kKeys = 32;  // a lane has one
constexpr int kMaxDim = 128, kColumns = kMaxDim / 32;
constexpr int kPiece = 8;  // elements of 16 bytes

/// to[row][:] = rows first to first + count - 1 of the head, 0 where there are none.
template <class T, int kStride, int kRows>
__device__ __forceinline__ void load_rows(const T* from, int64_t stride, int first, int end,
                                          int head_dim, float (&to)[kRows][kStride]) {
  const int pieces = head_dim / kPiece;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * pieces; i += kThreads) {
    const int row = i / pieces;
    const int column = (i - row * pieces) * kPiece;
    float x[kPiece] = {};
    if (first + row < end) {
      unpack8<T>(__ldg(reinterpret_cast<const uint4*>(from + (first + row) * stride + column)), x);
    }
#pragma unroll
    for (int j = 0; j < kPiece; ++j) to[row][column + j] = x[j];
  }
}

__device__ __forceinline__ float max_over_warp(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, mask));
  return x;
}
__device__ __forceinline__ float sum_over_warp(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(kAllLanes, x, mask);
  return x;
}

/// What a warp knows of one of its queries. `sum` is that of the lane's keys, `out` the lane's
/// columns.
struct QueryState {
  float max = kMinusInfinity;
  float sum = 0.0F;
  float out[kColumns] = {};
};

/// Takes in the scores of a tile, one in each lane, and returns the lane's weight.
__device__ __forceinline__ float update(QueryState& state, float score) {
  const float max = fmaxf(state.max, max_over_warp(score));
  const float shift = max == kMinusInfinity ? 0.0F : max;  // -inf - -inf would be NaN
  const float factor = exp2f((state.max - shift) * kLog2E);
  const float weight = exp2f((score - shift) * kLog2E);
  state.max = max;
  state.sum = fmaf(state.sum, factor, weight);
#pragma unroll
  for (float& x : state.out) x *= factor;
  return weight;
}

/// grid: x blocks of 16 queries, y heads, z batch.
template <class T>
__global__ void __launch_bounds__(kThreads)
    relative_attention_kernel(const __grid_constant__ RelativeAttentionParams p) {
  __shared__ float q_tile[kQueries][kMaxDim];
  __shared__ float k_tile[kKeys][kMaxDim + 1];
  __shared__ float v_tile[kKeys][kMaxDim];
  pdl_wait_and_trigger();
  const auto head = static_cast<int64_t>(blockIdx.y);
  const auto b = static_cast<int64_t>(blockIdx.z);
  const int64_t kv_head = head / p.group_size;
  const T* const q = static_cast<const T*>(p.q.data) + b * p.q.batch + head * p.q.head;
  const T* const k = static_cast<const T*>(p.k.data) + b * p.k.batch + kv_head * p.k.head;
  const T* const v = static_cast<const T*>(p.v.data) + b * p.v.batch + kv_head * p.v.head;
  const float* const bias =
      static_cast<const float*>(p.bias.data) + b * p.bias.batch + head * p.bias.head;
  const int first_query = static_cast<int>(blockIdx.x) * kQueries;
  load_rows<T>(q, p.q.seq, first_query, p.num_queries, p.head_dim, q_tile);

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int own = static_cast<int>(threadIdx.x) / 32 * kQueriesOfWarp;  // the warp's first query
  QueryState states[kQueriesOfWarp];
  for (int first = 0; first < p.num_keys; first += kKeys) {
    __syncthreads();  // no warp reads the previous tile any more
    load_rows<T>(k, p.k.seq, first, p.num_keys, p.head_dim, k_tile);
    load_rows<T>(v, p.v.seq, first, p.num_keys, p.head_dim, v_tile);
    __syncthreads();
    float weights[kQueriesOfWarp] = {};
    for (int d = 0; d < p.head_dim; ++d) {
      const float key = k_tile[lane][d];
#pragma unroll
      for (int i = 0; i < kQueriesOfWarp; ++i) {
        weights[i] = fmaf(q_tile[own + i][d], key, weights[i]);
      }
    }
    const int j = first + lane;
#pragma unroll
    for (int i = 0; i < kQueriesOfWarp; ++i) {
      // Of a query behind the last one whatever comes is not stored, but its bias is not there.
      const int query = min(first_query + own + i, p.num_queries - 1);
      const float score = j < p.num_keys
                              ? fmaf(weights[i], p.scale, bias[j - query + p.num_queries - 1])
                              : kMinusInfinity;
      weights[i] = update(states[i], score);
    }
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      if (column * 32 >= p.head_dim) break;  // the same in all lanes
      for (int key = 0; key < kKeys; ++key) {
        const float value = v_tile[key][column * 32 + lane];
#pragma unroll
        for (int i = 0; i < kQueriesOfWarp; ++i) {
          const float weight = __shfl_sync(kAllLanes, weights[i], key);
          states[i].out[column] = fmaf(weight, value, states[i].out[column]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kQueriesOfWarp; ++i) {
    const float sum = sum_over_warp(states[i].sum);
    const int query = first_query + own + i;
    if (query >= p.num_queries) continue;
    T* const out =
        static_cast<T*>(p.out.data) + b * p.out.batch + head * p.out.head + query * p.out.seq;
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const int at = column * 32 + lane;
      if (at < p.head_dim) out[at] = T(sum == 0.0F ? 0.0F : states[i].out[column] / sum);
    }
  }
}

}  // namespace

Status run_relative_attention(const CallSite& at, const RelativeAttentionParams& params,
                              DType dtype, const std::array<int64_t, 4>& shape) {
  const LaunchShape launched{
      .grid = dim3(grid_extent(shape[2], kQueries), grid_extent(shape[1]), grid_extent(shape[0])),
      .block = dim3(kThreads),
      .overlaps_previous = true};
  return dtype == DType::kBF16
             ? launch(at, relative_attention_kernel<__nv_bfloat16>, launched, params)
             : launch(at, relative_attention_kernel<__half>, launched, params);
}

}  // namespace vsa::cuda
