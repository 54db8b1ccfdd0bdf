// The coarse scores: scale * q_pooled k_pooled^T for all pairs of tiles, with the accuracy of fp32
// on tensor cores (tf32_sum.h), and statistics for the softmax of coarse_out.cu.
//
//   q_pooled, k_pooled -> cp.async -> 4 stages of 16 elements of head_dim in shared memory
//                      -> split tf32, mma.sync -> 128 x 64 sums in registers
//                      -> times scale, -inf for tiles without tokens -> scores
//                      -> maximum and sum of exponentials of each row in these 64 columns -> stats
//
// A CTA of 4 warps computes 128 query tiles x 64 kv tiles, 32 rows in each warp; all threads copy
// and compute. Shared memory: 4 stages x (128 x 24 + 64 x 20 floats) = 68 KiB, so that 3 CTAs fit
// on a multiprocessor. Each step waits for its copies (cp.async.wait_group) and for all threads
// (__syncthreads).
#include "src/cuda/coarse/coarse_device.h"
#include "src/cuda/coarse/tf32_sum.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 128;  // of a CTA, 32 in each warp
constexpr int kDepth = 16;  // elements of head_dim in a step
constexpr int kStages = 4;
constexpr int kCtas = 3;  // on a multiprocessor
// A lane reads 8 bytes. The lanes that are served together read four rows of q, or every second of
// eight rows of k; with these pitches they lie on different banks.
constexpr int kPitchOfQ = kDepth + 8;
constexpr int kPitchOfK = kDepth + 4;
constexpr int kStageFloats = kRows * kPitchOfQ + kColumns * kPitchOfK;

using Sum = Tf32Sum<2, kColumns / 8>;
constexpr int kColumnsOfLane = kColumns / 4;  // columns of a lane in each of its rows

/// The column of the CTA that is column c of this lane. k rows are assigned to the columns of the
/// mma such that a lane has 4 adjacent columns of every 16, which it stores together.
__device__ __forceinline__ int lane_column(int c) { return c / 4 * 16 + Sum::member() * 4 + c % 4; }

/// One element of the product in plain fp32.
__device__ __forceinline__ float dot(const Panel& q, int row, const Panel& k, int column, int depth,
                                     CoarseRounding rounding) {
  const float* a = q.from + row * q.stride;
  const float* b = k.from + column * k.stride;
  float sum = 0.0F;
#pragma unroll 1
  for (int d = 0; d < depth; ++d) sum = fmaf(rounded(a[d], rounding), rounded(b[d], rounding), sum);
  return sum;
}

/// A mask of this lane's columns: bit c is set if its tile has no token, or lies beyond the end.
__device__ __forceinline__ unsigned columns_without_tokens(const CoarseParams& p, int j0) {
  unsigned empty = 0;
#pragma unroll
  for (int c = 0; c < kColumnsOfLane; ++c) {
    const int column = j0 + lane_column(c);
    if (column >= p.num_kv_tiles || p.kv_len[column] == 0) empty |= 1U << c;
  }
  return empty;
}

/// Computes elements that are not finite again in plain fp32, because an infinity becomes NaN on
/// tensor cores.
__device__ __forceinline__ void recompute_non_finite(float (&x)[kColumnsOfLane], const Panel& q,
                                                     int row, const Panel& k, int j0,
                                                     unsigned empty, const CoarseParams& p) {
#pragma unroll 1
  for (int c = 0; c < kColumnsOfLane; ++c) {
    if ((empty >> c & 1U) != 0) continue;
    const float exact = dot(q, row, k, j0 + lane_column(c), p.head_dim, p.rounding);
#pragma unroll
    for (int i = 0; i < kColumnsOfLane; ++i) x[i] = i == c && !isfinite(x[i]) ? exact : x[i];
  }
}

/// Turns sums into scores; those of empty columns become -inf.
__device__ __forceinline__ void scale_scores(float (&x)[kColumnsOfLane], unsigned empty,
                                             const CoarseParams& p) {
  if (p.rounding == CoarseRounding::kNone) {
#pragma unroll
    for (int c = 0; c < kColumnsOfLane; ++c) x[c] *= p.scale;
  } else {
#pragma unroll
    for (int c = 0; c < kColumnsOfLane; ++c)
      x[c] = rounded(rounded(x[c], p.rounding) * p.scale, p.rounding);
  }
  if (empty != 0) {
#pragma unroll
    for (int c = 0; c < kColumnsOfLane; ++c) x[c] = (empty >> c & 1U) != 0 ? kMinusInfinity : x[c];
  }
}

/// The maximum of a row in these 64 columns, and the sum of its exponentials relative to that
/// maximum. Four lanes hold a row.
__device__ __forceinline__ float2 row_stats(const float (&x)[kColumnsOfLane]) {
  float max = x[0];
#pragma unroll
  for (int c = 1; c < kColumnsOfLane; ++c) max = fmaxf(max, x[c]);
  for (const int mask : {1, 2}) max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, mask));
  const float offset = softmax_offset(max);
  float total = 0.0F;
#pragma unroll
  for (int c = 0; c < kColumnsOfLane; ++c) total += exp2_flushed((x[c] - offset) * kLog2E);
  for (const int mask : {1, 2}) total += __shfl_xor_sync(kAllLanes, total, mask);
  return {max, total};
}

/// grid: x kv tiles / 64, y query tiles / kRows, z batch * heads
template <bool kAligned>
__global__ void __launch_bounds__(kThreads, kCtas)
    coarse_scores_kernel(const __grid_constant__ CoarseParams p) {
  extern __shared__ float4 raw_smem[];
  pdl_wait_and_trigger();
  auto* smem = reinterpret_cast<float*>(raw_smem);  // [kStages]: kRows rows of q, 64 rows of k
  const HeadIdx head = head_of(p, blockIdx.z);
  const int i0 = static_cast<int>(blockIdx.y) * kRows;
  const int j0 = static_cast<int>(blockIdx.x) * kColumns;
  const Panel q = panel_of(p.q, head.b, head.h, p.num_q_tiles, p.head_dim);
  const Panel k = panel_of(p.k, head.b, head.kv, p.num_kv_tiles, p.head_dim);

  PanelCopy<kRows, kDepth, kPitchOfQ, kThreads, kAligned> copy_q(q, i0, 0);
  PanelCopy<kColumns, kDepth, kPitchOfK, kThreads, kAligned> copy_k(k, j0, 0);
  const int num_steps = p.head_dim / kDepth;
  const auto q_of = [&](int step) { return smem + step % kStages * kStageFloats; };
  const auto k_of = [&](int step) { return q_of(step) + kRows * kPitchOfQ; };
  const auto copy = [&](int step) {
    if (step < num_steps) {
      copy_q.start(q_of(step));
      copy_k.start(k_of(step));
      copy_q.move_right();
      copy_k.move_right();
    }
    commit_copies();
  };
  const auto round_operands = [&](float* a, float* b) {
    for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
      float4& at = four(a + row * kPitchOfQ + column);
      at = rounded(at, p.rounding);
    });
    for_each_four<kColumns, kDepth, kThreads>([&](int row, int column) {
      float4& at = four(b + row * kPitchOfK + column);
      at = rounded(at, p.rounding);
    });
  };
  for (int step = 0; step < kStages - 1; ++step) copy(step);
  const unsigned empty = columns_without_tokens(p, j0);

  Sum sum;
  const int first_row = static_cast<int>(threadIdx.x) / 32 * 32 + Sum::group();
  for (int step = 0; step < num_steps; ++step) {
    wait_copies<kStages - 2>();
    if (p.rounding != CoarseRounding::kNone) round_operands(q_of(step), k_of(step));
    __syncthreads();
    copy(step + kStages - 1);
    const float* a = q_of(step) + first_row * kPitchOfQ + Sum::member() * 2;
    const float* b = k_of(step) + Sum::group() * 2 * kPitchOfK + Sum::member() * 2;
    sum.add<kDepth / 8>(
        [&](int m, int half, int i) { return two(a + (m * 16 + half * 8) * kPitchOfQ + i * 8); },
        [&](int n, int i, float2(&terms)[2]) {
          terms[0] = two(b + n * 8 * kPitchOfK + i * 8);
          terms[1] = two(b + (n * 8 + 1) * kPitchOfK + i * 8);
        });
  }

  float* to = static_cast<float*>(p.scores.data) + head.b * p.scores.batch + head.h * p.scores.head;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    const int row = i0 + first_row + part * 8;
    float x[kColumnsOfLane];
    float check = 0.0F;  // becomes NaN if a sum is not finite
#pragma unroll
    for (int c = 0; c < kColumnsOfLane; ++c) {
      x[c] = sum.get(part / 2, part % 2, c / 4 * 2 + c % 2, c % 4 / 2);
      check = fmaf(x[c], 0.0F, check);
    }
    if (check != 0.0F && row < p.num_q_tiles) recompute_non_finite(x, q, row, k, j0, empty, p);
    scale_scores(x, empty, p);
    if (row < p.num_q_tiles) {
#pragma unroll
      for (int c = 0; c < kColumnsOfLane; c += 4) {
        const int column = j0 + lane_column(c);
        store_four<kAligned>(to + row * p.scores.seq + column, {x[c], x[c + 1], x[c + 2], x[c + 3]},
                             p.num_kv_tiles - column);
      }
    }
    if (p.stats == nullptr) continue;
    const float2 stats = row_stats(x);
    if (Sum::member() == 0 && row < p.num_q_tiles) {
      const int64_t stats_row = int64_t{blockIdx.z} * p.num_q_tiles + row;
      p.stats[stats_row * gridDim.x + blockIdx.x] = stats;
    }
  }
}

}  // namespace

Status run_coarse_scores(const CallSite& at, const CoarseParams& params, int64_t batch) {
  return launch(
      at, is_aligned(params) ? coarse_scores_kernel<true> : coarse_scores_kernel<false>,
      {.grid = dim3(grid_extent(params.num_kv_tiles, kColumns),
                    grid_extent(params.num_q_tiles, kRows), grid_extent(batch * params.num_heads)),
       .block = dim3(kThreads),
       .smem_bytes = kStages * kStageFloats * 4,
       .overlaps_previous = true},
      params);
}

}  // namespace vsa::cuda
