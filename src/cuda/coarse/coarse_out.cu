// The coarse output: softmax(scores) v_pooled, with the accuracy of fp32 on tensor cores
// (tf32_sum.h).
//
//   stats of coarse_scores.cu -> maximum and 1 / sum of each row
//   scores, v_pooled -> cp.async -> 2 stages of 64 kv tiles in shared memory
//                    -> scores become exp(score - maximum) in place
//                    -> split tf32, mma.sync -> 32 x 64 sums in registers, two groups of kv tiles
//                    -> groups added in shared memory, times 1 / sum -> out
//
// A CTA of 4 warps computes 32 query tiles x 64 columns of head_dim; all threads copy and compute.
// Two warps side by side have 32 columns each; two such groups process alternate 32 kv tiles.
// Shared memory: 2 stages x (32 x 72 + 64 x 68 floats) = 52 KiB, so that 3 CTAs fit on a
// multiprocessor; afterwards the sums of both groups (2 x 32 x 80 floats) take its place. Each step
// waits for its copies (cp.async.wait_group) and for all threads (__syncthreads).
#include "src/cuda/coarse/coarse_device.h"
#include "src/cuda/coarse/tf32_sum.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kCtas = 3;   // on a multiprocessor
constexpr int kRows = 32;  // of a CTA
// Two warps side by side in two groups were the fastest division of the work at 512 tiles. A
// division chosen by the size of the call would change the order of the sums, so that the bits of a
// batch item would depend on the size of the batch.
constexpr int kAcross = 2;  // warps side by side
constexpr int kGroups = kThreads / 32 / kAcross;
constexpr int kTerms = 32;  // kv tiles of one group in a step
constexpr int kDepth = kTerms * kGroups;
constexpr int kStages = 2;
// A lane reads 8 bytes. The lanes that are served together read four rows of scores, or every
// second of eight rows of v; with these pitches they lie on different banks.
constexpr int kPitch = kDepth + 8;
constexpr int kPitchOfV = kColumns + 4;
constexpr int kStageFloats = kRows * kPitch + kDepth * kPitchOfV;
constexpr int kPitchOfSums = kColumns + 16;
static_assert(kStages * kStageFloats >= kGroups * kRows * kPitchOfSums,
              "the sums replace the stages");
using Sum = Tf32Sum<2, 8 / kAcross>;

/// The maximum of a row, 0 if it has no finite score, and the inverse of its sum of exponentials,
/// from those of every 64 columns.
__device__ __forceinline__ float2 row_statistics(const float2* stats, int count) {
  float max = kMinusInfinity;
  for (int i = 0; i < count; ++i) max = fmaxf(max, stats[i].x);
  max = softmax_offset(max);
  float sum = 0.0F;
  for (int i = 0; i < count; ++i)
    sum = fmaf(exp2_flushed((stats[i].x - max) * kLog2E), stats[i].y, sum);
  return {max, sum == 0.0F ? 0.0F : 1.0F / sum};  // sum is 0 if no kv tile has a token
}

__device__ __forceinline__ float weight(float score, float max) {
  return exp2_flushed((score - max) * kLog2E);
}
__device__ __forceinline__ float4 scaled(const float4& x, float by) {
  return {x.x * by, x.y * by, x.z * by, x.w * by};
}
/// The first `count` of 4 elements; the others become 0.
__device__ __forceinline__ float4 zero_from(const float4& x, int count) {
  return {count > 0 ? x.x : 0.0F, count > 1 ? x.y : 0.0F, count > 2 ? x.z : 0.0F,
          count > 3 ? x.w : 0.0F};
}

/// One element of the product in plain fp32.
__device__ __forceinline__ float fp32_sum(const Panel& scores, int row, const Panel& v, int column,
                                          const float2& statistics, CoarseRounding rounding) {
  const bool rounds = rounding != CoarseRounding::kNone;
  const float* s = scores.from + row * scores.stride;
  float sum = 0.0F;
#pragma unroll 1
  for (int j = 0; j < v.rows; ++j) {
    const float w = weight(s[j], statistics.x) * (rounds ? statistics.y : 1.0F);
    sum = fmaf(rounded(w, rounding), rounded(v.from[j * v.stride + column], rounding), sum);
  }
  return sum;
}

/// Computes the statistics of the CTA's rows, in shared memory.
__device__ __forceinline__ void load_statistics(float2 (&statistics)[kRows], const CoarseParams& p,
                                                int i0) {
  if (threadIdx.x < kRows) {
    const int64_t row = i0 + static_cast<int>(threadIdx.x);
    const int count = (p.num_kv_tiles + kColumns - 1) / kColumns;
    float2 found{0.0F, 0.0F};
    if (row < p.num_q_tiles) {
      found = row_statistics(p.stats + (int64_t{blockIdx.z} * p.num_q_tiles + row) * count, count);
    }
    statistics[threadIdx.x] = found;
  }
}

/// Stores the sums of a warp in its group's part of shared memory, [kRows][kPitchOfSums].
__device__ __forceinline__ void store_partial_sums(const Sum& sum, float* own, int first_row,
                                                   int first_column) {
#pragma unroll
  for (int part = 0; part < 4; ++part) {
#pragma unroll
    for (int n = 0; n < 8 / kAcross; n += 2) {
      const auto get = [&](int i) { return sum.get(part / 2, part % 2, n + i % 2, i / 2); };
      four(own + (first_row + part * 8) * kPitchOfSums + first_column + n * 8 +
           Sum::member() * 4) = {get(0), get(1), get(2), get(3)};
    }
  }
}

/// Replaces the scores of a step by exp(score - maximum). Each thread replaces what it copied, so
/// that no barrier is needed before.
__device__ __forceinline__ void scores_to_weights(float* scores, const float2 (&statistics)[kRows],
                                                  int left) {
  for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
    float4& at = four(scores + row * kPitch + column);
    const float max = statistics[row].x;
    at = {weight(at.x, max), weight(at.y, max), weight(at.z, max), weight(at.w, max)};
  });
  if (left < kDepth) {
    for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
      float4& at = four(scores + row * kPitch + column);
      at = zero_from(at, left - column);
    });
  }
}

/// For CoarseRounding: normalises the weights and rounds them and v before the product.
__device__ __forceinline__ void round_operands(float* weights, float* v,
                                               const float2 (&statistics)[kRows],
                                               CoarseRounding rounding) {
  for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
    float4& at = four(weights + row * kPitch + column);
    at = rounded(scaled(at, statistics[row].y), rounding);
  });
  for_each_four<kDepth, kColumns, kThreads>([&](int row, int column) {
    float4& at = four(v + row * kPitchOfV + column);
    at = rounded(at, rounding);
  });
}

/// Adds the sums of the groups in order, normalises and stores them. Elements that are not finite
/// are computed again in plain fp32.
__device__ __forceinline__ void store_out(const float* smem, const CoarseParams& p,
                                          const HeadIdx& head, const Panel& scores, const Panel& v,
                                          const float2 (&statistics)[kRows], int i0, int column0) {
  float* out = static_cast<float*>(p.out.data) + head.b * p.out.batch + head.h * p.out.head;
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kColumns; e += kThreads) {
    const int row = e / kColumns;
    const int column = e % kColumns;
    if (i0 + row >= p.num_q_tiles) break;
    const float* sums = smem + row * kPitchOfSums + column;
    float total = sums[0];
#pragma unroll
    for (int g = 1; g < kGroups; ++g) total += sums[g * kRows * kPitchOfSums];
    if (!isfinite(total)) {
      total = fp32_sum(scores, i0 + row, v, column0 + column, statistics[row], p.rounding);
    }
    if (p.rounding == CoarseRounding::kNone) total *= statistics[row].y;
    out[(i0 + row) * p.out.seq + column0 + column] = rounded(total, p.rounding);
  }
}

/// grid: x columns / 64, y query tiles / kRows, z batch * heads
template <bool kAligned>
__global__ void __launch_bounds__(kThreads, kCtas)
    coarse_out_kernel(const __grid_constant__ CoarseParams p) {
  extern __shared__ float4 raw_smem[];
  pdl_wait_and_trigger();
  auto* smem = reinterpret_cast<float*>(raw_smem);  // [kStages]: scores, v
  __shared__ float2 statistics[kRows];
  const HeadIdx head = head_of(p, blockIdx.z);
  const int column0 = static_cast<int>(blockIdx.x) * kColumns;
  const int i0 = static_cast<int>(blockIdx.y) * kRows;
  const Panel scores = panel_of(p.scores, head.b, head.h, p.num_q_tiles, p.num_kv_tiles);
  const Panel v = panel_of(p.v, head.b, head.kv, p.num_kv_tiles, p.head_dim);
  const bool rounds = p.rounding != CoarseRounding::kNone;

  const int num_steps = (p.num_kv_tiles + kDepth - 1) / kDepth;
  PanelCopy<kRows, kDepth, kPitch, kThreads, kAligned> copy_scores(scores, i0, 0);
  PanelCopy<kDepth, kColumns, kPitchOfV, kThreads, kAligned> copy_v(v, 0, column0);
  const auto scores_of = [&](int step) { return smem + step % kStages * kStageFloats; };
  const auto v_of = [&](int step) { return scores_of(step) + kRows * kPitch; };
  const auto copy = [&](int step) {
    if (step < num_steps) {
      copy_scores.start(scores_of(step));
      copy_v.start(v_of(step));
      copy_scores.move_right();
      copy_v.move_down();
    }
    commit_copies();
  };
  for (int step = 0; step < kStages - 1; ++step) copy(step);
  load_statistics(statistics, p, i0);
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = warp / kAcross;
  const int first_row = Sum::group();
  const int first_column = warp % kAcross * (kColumns / kAcross);
  Sum sum;
  for (int step = 0; step < num_steps; ++step) {
    wait_copies<kStages - 2>();
    scores_to_weights(scores_of(step), statistics, p.num_kv_tiles - step * kDepth);
    if (rounds) round_operands(scores_of(step), v_of(step), statistics, p.rounding);
    __syncthreads();
    copy(step + kStages - 1);
    const int term = group * kTerms + Sum::member() * 2;
    const float* a = scores_of(step) + first_row * kPitch + term;
    const float* b = v_of(step) + term * kPitchOfV + first_column + Sum::group() * 2;
#pragma unroll 1  // unrolled, the loop needs more registers
    for (int t = 0; t < kTerms; t += 16) {
      sum.add<2>(
          [&](int m, int half, int i) { return two(a + (m * 16 + half * 8) * kPitch + t + i * 8); },
          [&](int n, int i, float2(&terms)[2]) {
            const float2 x = two(b + (t + i * 8) * kPitchOfV + n * 8);
            const float2 y = two(b + (t + i * 8 + 1) * kPitchOfV + n * 8);
            terms[0] = {x.x, y.x};
            terms[1] = {x.y, y.y};
          });
    }
  }

  wait_copies<0>();
  __syncthreads();
  float* own = smem + group * kRows * kPitchOfSums;  // [kGroups][kRows][kPitchOfSums]
  store_partial_sums(sum, own, first_row, first_column);
  __syncthreads();
  store_out(smem, p, head, scores, v, statistics, i0, column0);
}

}  // namespace

Status run_coarse_out(const CallSite& at, const CoarseParams& params, int64_t batch) {
  return launch(
      at, is_aligned(params) ? coarse_out_kernel<true> : coarse_out_kernel<false>,
      {.grid = dim3(grid_extent(params.head_dim, kColumns), grid_extent(params.num_q_tiles, kRows),
                    grid_extent(batch * params.num_heads)),
       .block = dim3(kThreads),
       .smem_bytes = kStages * kStageFloats * 4,
       .overlaps_previous = true},
      params);
}

}  // namespace vsa::cuda
