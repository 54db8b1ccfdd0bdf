// norm_rope_pool: RMSNorm, rotary embedding and the mean of each tile in one pass over x, in place.
//
//   x of a token -> times rstd, weight -> rotated by cos, sin -> rounded -> x
//                                                                   +-> mean of the tile -> pooled
//
// A CTA processes one tile of all heads; a thread has 8 adjacent elements (16 bytes) of one head
// and processes the tokens of the tile in groups of four, which stay in its registers from the one
// load to the store. For an RMSNorm over all heads the squares of a group are summed over shuffles
// within a warp and then over the warps, in the same order in every thread. Only if a token has
// more pieces than a CTA can have threads is x read twice: first for rstd, one warp for each token.
//
// The least traffic for [1, 12, 32760, 128] in bf16: x is read and written, 201 MB, which take
// 0.047 ms at 4.24 TB/s; the angles are 17 MB.
// Shared memory: positions and rstd of the tokens, 2 KiB; sums of a group by warp, 1 KiB. Barriers:
// __syncthreads after the positions and after rstd, or after the sums of a group. Sums have two
// buffers, so that a warp that is ahead does not overwrite what another one still reads.
#include "src/cuda/norm_rope_pool/norm_rope_pool.h"
#include "src/cuda/plan/tile_positions.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kFewThreads = 256;  // enough where no sum goes over the whole token
constexpr int kElements = 8;      // of a thread, 16 bytes
constexpr int kTokens = 4;        // that are loaded together

/// Rounds the elements to T for storing, and replaces x by the rounded values, which pooling uses.
template <class T>
__device__ __forceinline__ uint4 round_and_pack(float (&x)[kElements]) {
  uint32_t pairs[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    pairs[j] = HalfType<T>::pack(x[2 * j], x[2 * j + 1]);
    const float2 both = HalfType<T>::unpack(pairs[j]);
    x[2 * j] = both.x;
    x[2 * j + 1] = both.y;
  }
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

__device__ __forceinline__ float sum_of_squares(const float (&x)[kElements]) {
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kElements; ++j) sum = fmaf(x[j], x[j], sum);
  return sum;
}

/// The sums of squares of a group's tokens, by warp; one buffer for every other group.
struct GroupSums {
  float4 of_warp[2][kMaxThreads / 32];
};
static_assert(kTokens == 4);

/// The sum of each token's `of_thread` over the warp, by lane: of token lane / 8. The first steps
/// halve the tokens that a lane has, which takes 6 exchanges in place of 20.
__device__ __forceinline__ float sum_by_quarter(const float (&of_thread)[kTokens]) {
  const bool upper = (threadIdx.x & 16U) != 0;
  float two[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const float kept = upper ? of_thread[k + 2] : of_thread[k];
    const float given = upper ? of_thread[k] : of_thread[k + 2];
    two[k] = kept + __shfl_xor_sync(kAllLanes, given, 16);
  }
  const bool odd = (threadIdx.x & 8U) != 0;
  const float kept = odd ? two[1] : two[0];
  float sum = kept + __shfl_xor_sync(kAllLanes, odd ? two[0] : two[1], 8);
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
  return sum;
}

/// rstd of a group's tokens over all heads, whose pieces all threads of the CTA hold together. They
/// all call it.
/// @param squares  of this thread's pieces
__device__ __forceinline__ void group_rstd(const NormRopePoolParams& p,
                                           const float (&squares)[kTokens], int buffer,
                                           GroupSums& sums, float (&rstd)[kTokens]) {
  const float sum = sum_by_quarter(squares);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 8 == 0) {
    auto* const of_token = reinterpret_cast<float*>(&sums.of_warp[buffer][threadIdx.x / 32]);
    of_token[threadIdx.x % 32 / 8] = sum;
  }
  __syncthreads();
  float4 all = sums.of_warp[buffer][0];
  for (int warp = 1; warp < warps; ++warp) {
    const float4 next = sums.of_warp[buffer][warp];
    all = {all.x + next.x, all.y + next.y, all.z + next.z, all.w + next.w};
  }
  const float by_width = 1.0F / static_cast<float>(p.num_heads * p.head_dim);
  const float of_token[kTokens] = {all.x, all.y, all.z, all.w};
#pragma unroll
  for (int k = 0; k < kTokens; ++k) rstd[k] = rsqrtf(fmaf(of_token[k], by_width, p.eps));
}

/// rstd = 1 / sqrt(mean(x^2) + eps) over all heads of each token, one warp for each token.
template <class T>
__device__ __forceinline__ void all_heads_rstd(const NormRopePoolParams& p, const T* x, int len,
                                               const int32_t* positions, float* rstd) {
  constexpr int kTogether = 4;  // loads in flight
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pieces_per_head = p.head_dim / kElements;
  const int num_pieces = p.num_heads * pieces_per_head;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < len;
       i += static_cast<int>(blockDim.x) / 32) {
    const T* token = x + positions[i] * p.x.seq;
    float sum = 0.0F;
    for (int first = lane; first < num_pieces; first += 32 * kTogether) {
      uint4 raw[kTogether] = {};  // zeros behind the last piece add nothing
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int piece = first + 32 * j;
        if (piece >= num_pieces) break;
        const int64_t at = piece / pieces_per_head * p.x.head + piece % pieces_per_head * kElements;
        raw[j] = *reinterpret_cast<const uint4*>(token + at);
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        float e[kElements];
        unpack8<T>(raw[j], e);
        sum += sum_of_squares(e);
      }
    }
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
    if (lane == 0) rstd[i] = rsqrtf(sum / static_cast<float>(num_pieces * kElements) + p.eps);
  }
}

__device__ __forceinline__ const float* row_of(const ConstRows& t, int64_t b, int64_t h,
                                               int64_t s) {
  return static_cast<const float*>(t.data) + b * t.batch + h * t.head + s * t.seq;
}

/// Rotates the four pairs (x_2j, x_2j+1) by the angles whose cosines and sines begin at `cos`,
/// `sin`.
__device__ __forceinline__ void rotate(float (&x)[kElements], const float* cos, const float* sin) {
  const float4 c4 = __ldg(reinterpret_cast<const float4*>(cos));
  const float4 s4 = __ldg(reinterpret_cast<const float4*>(sin));
  const float c[4] = {c4.x, c4.y, c4.z, c4.w};
  const float s[4] = {s4.x, s4.y, s4.z, s4.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float a = x[2 * j];
    const float b = x[2 * j + 1];
    x[2 * j] = a * c[j] - b * s[j];
    x[2 * j + 1] = a * s[j] + b * c[j];
  }
}

/// grid: x tiles, y batch.
/// @tparam kByGroup  an RMSNorm over all heads, whose sums the threads of the CTA take by groups
template <class T, bool kByGroup>
__global__ void __launch_bounds__(kMaxThreads)
    norm_rope_pool_kernel(const __grid_constant__ NormRopePoolParams p) {
  __shared__ int32_t positions[kMaxTileRows];
  __shared__ float token_rstd[kMaxTileRows];
  __shared__ GroupSums sums;
  const int tile = static_cast<int>(blockIdx.x);
  const int b = static_cast<int>(blockIdx.y);
  tile_positions(p.plan, tile, positions);
  const int len = p.plan.tile_len[tile];
  T* x = static_cast<T*>(p.x.data) + b * p.x.batch;
  const bool given = !kByGroup && p.rstd.data != nullptr;
  const bool over_all = !kByGroup && p.norm == NormOver::kAllHeads && !given;
  const bool over_head = !kByGroup && p.norm == NormOver::kHead && !given;
  const int pieces_per_head = p.head_dim / kElements;  // 8 or 16 neighbouring threads hold a head
  const int num_pieces = p.num_heads * pieces_per_head;
  if (over_all) {
    all_heads_rstd<T>(p, x, len, positions, token_rstd);
    __syncthreads();
  }
  for (int first = 0; first < num_pieces; first += static_cast<int>(blockDim.x)) {
    const int piece = first + static_cast<int>(threadIdx.x);
    const bool active = piece < num_pieces;  // inactive threads only take part in shuffles
    const int head = active ? piece / pieces_per_head : 0;
    const int column = piece % pieces_per_head * kElements;
    T* const x_piece = x + head * p.x.head + column;
    const float* const cos = row_of(p.cos, 0, 0, 0) + column / 2;
    const float* const sin = row_of(p.sin, 0, 0, 0) + column / 2;
    float weight[kElements];
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      weight[j] =
          p.weight.data != nullptr ? __ldg(row_of(p.weight, 0, head, 0) + column + j) : 1.0F;
    }
    float sum[kElements] = {};
    for (int group = 0; group < len; group += kTokens) {
      uint4 raw[kTokens];
      float squares[kTokens] = {};
#pragma unroll
      for (int k = 0; k < kTokens; ++k) {  // behind the end the last token again, in vain
        const int64_t s = positions[min(group + k, len - 1)];
        raw[k] = active ? *reinterpret_cast<const uint4*>(x_piece + s * p.x.seq) : uint4{};
      }
      float rstd_of[kTokens];
      if (kByGroup) {
#pragma unroll
        for (int k = 0; k < kTokens; ++k) {
          float e[kElements];
          unpack8<T>(raw[k], e);
          squares[k] = sum_of_squares(e);
        }
        group_rstd(p, squares, group / kTokens % 2, sums, rstd_of);
      }
#pragma unroll
      for (int k = 0; k < kTokens; ++k) {
        const int i = group + k;
        if (i >= len) break;
        const int64_t s = positions[i];
        float e[kElements];
        unpack8<T>(raw[k], e);
        float rstd = kByGroup ? rstd_of[k] : 1.0F;
        if (over_all) rstd = token_rstd[i];
        if (given) rstd = __ldg(row_of(p.rstd, b, p.norm == NormOver::kHead ? head : 0, s));
        if (over_head) {
          float of_head = sum_of_squares(e);
          for (int mask = pieces_per_head / 2; mask > 0; mask /= 2) {
            of_head += __shfl_xor_sync(kAllLanes, of_head, mask);
          }
          rstd = rsqrtf(of_head / static_cast<float>(p.head_dim) + p.eps);
        }
        if (!active) continue;
#pragma unroll
        for (int j = 0; j < kElements; ++j) e[j] = e[j] * rstd * weight[j];
        if (p.cos.data != nullptr) rotate(e, cos + s * p.cos.seq, sin + s * p.sin.seq);
        *reinterpret_cast<uint4*>(x_piece + s * p.x.seq) = round_and_pack<T>(e);
#pragma unroll
        for (int j = 0; j < kElements; ++j) sum[j] += e[j];
      }
    }
    if (!active || p.pooled.data == nullptr) continue;
    float* to = static_cast<float*>(p.pooled.data) + b * p.pooled.batch + head * p.pooled.head +
                tile * p.pooled.seq + column;
    const float divisor = len > 0 ? static_cast<float>(len) : 1.0F;
#pragma unroll
    for (int j = 0; j < kElements; ++j) to[j] = sum[j] / divisor;
  }
}

}  // namespace

Status run_norm_rope_pool(const CallSite& at, const NormRopePoolParams& params, DType dtype,
                          int64_t batch) {
  const int pieces = params.num_heads * params.head_dim / kElements;
  const bool by_group =
      params.norm == NormOver::kAllHeads && params.rstd.data == nullptr && pieces <= kMaxThreads;
  const int passes = by_group ? 1 : (pieces + kFewThreads - 1) / kFewThreads;
  const int threads = (pieces + passes - 1) / passes;
  const LaunchShape shape{
      .grid = dim3(grid_extent(params.plan.shape.num_tiles), grid_extent(batch)),
      .block = dim3(static_cast<unsigned>((threads + 31) / 32 * 32))};
  const auto launch_for = [&](auto element) {
    using T = decltype(element);
    return launch(at, by_group ? norm_rope_pool_kernel<T, true> : norm_rope_pool_kernel<T, false>,
                  shape, params);
  };
  return dtype == DType::kBF16 ? launch_for(__nv_bfloat16{}) : launch_for(__half{});
}

}  // namespace vsa::cuda
