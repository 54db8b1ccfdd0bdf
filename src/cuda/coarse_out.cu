// The second coarse product: out = softmax(scores) v in fp32, as the first one is made. Scores turn
// into weights in shared memory; what that takes of whole rows, the scores kernel has left.
#include "src/cuda/chain.h"
#include "src/cuda/coarse_device.h"
#include "src/cuda/launch.h"

namespace vsa::cuda {
namespace {

constexpr int kRowsOfThread = 4;
constexpr int kRows = 8 * kRowsOfThread;  // of a CTA
constexpr int kDepthOfGroup = 16;         // kv tiles that a group takes of a step
constexpr int kFewCtas = 3 * 132;         // run at once on an H200 with 256 threads each

template <int kGroups, int kStages>
struct OutShape {
  static constexpr int kThreads = 64 * kGroups;
  static constexpr int kDepth = kDepthOfGroup * kGroups;  // kv tiles of a step
  // Rows that are an odd number of 16 bytes apart: 8 of them lie on different banks.
  static constexpr int kPitch = kDepth + 4;
  static constexpr int kFloats = kStages * (kRows * kPitch + kDepth * kColumns);
  static_assert(kFloats >= kGroups * kRows * kColumns, "the sums of all groups take their place");
};

/// Maximum of a row (0 if it has none) and the inverse of its sum of exponentials.
__device__ __forceinline__ float2 row_statistics(const float2* stats, int count) {
  float most = kMinusInfinity;
  for (int i = 0; i < count; ++i) most = fmaxf(most, stats[i].x);
  most = subtracted(most);
  float sum = 0.0F;
  for (int i = 0; i < count; ++i)
    sum = fmaf(exp2_flushed((stats[i].x - most) * kLog2E), stats[i].y, sum);
  return {most, sum == 0.0F ? 0.0F : 1.0F / sum};  // 0: no kv tile has a token
}

__device__ __forceinline__ float weight(float score, float most) {
  return exp2_flushed((score - most) * kLog2E);
}
__device__ __forceinline__ float4 scaled(const float4& x, float by) {
  return {x.x * by, x.y * by, x.z * by, x.w * by};
}
/// The first `count` of 4, 0 for the others.
__device__ __forceinline__ float4 first_of(const float4& x, int count) {
  return {count > 0 ? x.x : 0.0F, count > 1 ? x.y : 0.0F, count > 2 ? x.z : 0.0F,
          count > 3 ? x.w : 0.0F};
}

/// out of 8 kRowsOfThread query tiles and 64 columns. kGroups of 64 threads, each of which takes
/// 16 of the kv tiles of a step; their sums are added in order at the end.
/// grid: x columns / 64, y query tiles / rows, z batch * heads
template <int kGroups, int kStages, int kCtas>
__global__ void __launch_bounds__(64 * kGroups, kCtas)
    coarse_out_kernel(const __grid_constant__ CoarseParams p) {
  using Shape = OutShape<kGroups, kStages>;
  constexpr int kThreads = Shape::kThreads;
  constexpr int kDepth = Shape::kDepth;
  constexpr int kPitch = Shape::kPitch;
  extern __shared__ float4 raw_smem[];
  after_previous();
  auto* weights = reinterpret_cast<float*>(raw_smem);  // [kStages][kRows][kPitch]
  float* v_smem = weights + kStages * kRows * kPitch;  // [kStages][kDepth][kColumns]
  __shared__ float max_smem[kRows];
  __shared__ float inverse_smem[kRows];
  const HeadIdx head = head_of(p, blockIdx.z);
  const int column0 = static_cast<int>(blockIdx.x) * kColumns;
  const int i0 = static_cast<int>(blockIdx.y) * kRows;
  const Panel scores = panel_of(p.scores, head.b, head.h, p.num_q_tiles, p.num_kv_tiles);
  const Panel v = panel_of(p.v, head.b, head.kv, p.num_kv_tiles, p.head_dim);
  // Probabilities that are rounded have to be there before the product, not after it.
  const bool rounds = p.rounding != CoarseRounding::kNone;

  const int num_steps = (p.num_kv_tiles + kDepth - 1) / kDepth;
  const auto copy = [&](int step) {
    if (step < num_steps) {
      const int stage = step % kStages;
      copy_panel<kRows, kDepth, kPitch, kThreads>(weights + stage * kRows * kPitch, scores, i0,
                                                  step * kDepth);
      copy_panel<kDepth, kColumns, kColumns, kThreads>(v_smem + stage * kDepth * kColumns, v,
                                                       step * kDepth, column0);
    }
    commit_copies();
  };
  for (int step = 0; step < kStages - 1; ++step) copy(step);
  if (threadIdx.x < kRows) {
    const int64_t row = i0 + static_cast<int>(threadIdx.x);
    const int count = (p.num_kv_tiles + kColumns - 1) / kColumns;
    float2 found{0.0F, 0.0F};
    if (row < p.num_q_tiles) {
      found = row_statistics(p.stats + (int64_t{blockIdx.z} * p.num_q_tiles + row) * count, count);
    }
    max_smem[threadIdx.x] = found.x;
    inverse_smem[threadIdx.x] = found.y;
  }
  __syncthreads();

  const int group = static_cast<int>(threadIdx.x) / 64;
  const auto [down, across] = place_of(static_cast<int>(threadIdx.x) % 64);
  float sum[kRowsOfThread][8] = {};
  for (int step = 0; step < num_steps; ++step) {
    float* a_smem = weights + step % kStages * kRows * kPitch;
    float* b_smem = v_smem + step % kStages * kDepth * kColumns;
    wait_copies<kStages - 2>();
    // Scores become weights where they are, each by the thread that copied it.
    const int left = p.num_kv_tiles - step * kDepth;
    for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
      float4& at = four(a_smem + row * kPitch + column);
      const float most = max_smem[row];
      at = {weight(at.x, most), weight(at.y, most), weight(at.z, most), weight(at.w, most)};
    });
    if (left < kDepth) {
      for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
        float4& at = four(a_smem + row * kPitch + column);
        at = first_of(at, left - column);
      });
    }
    if (rounds) {
      for_each_four<kRows, kDepth, kThreads>([&](int row, int column) {
        float4& at = four(a_smem + row * kPitch + column);
        at = rounded(scaled(at, inverse_smem[row]), p.rounding);
      });
      for_each_four<kDepth, kColumns, kThreads>([&](int row, int column) {
        float4& at = four(b_smem + row * kColumns + column);
        at = rounded(at, p.rounding);
      });
    }
    __syncthreads();
    copy(step + kStages - 1);
    const float* a_rows = a_smem + down * kPitch + group * kDepthOfGroup;
    const float* b_rows = b_smem + group * kDepthOfGroup * kColumns + across * 4;
#pragma unroll
    for (int d = 0; d < kDepthOfGroup; d += 4) {
      float4 a[kRowsOfThread];
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) a[i] = four(a_rows + i * 8 * kPitch + d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float4 left = four(b_rows + (d + e) * kColumns);
        const float4 right = four(b_rows + (d + e) * kColumns + kColumns / 2);
        const float b[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
        for (int i = 0; i < kRowsOfThread; ++i) {
          const float w = e == 0 ? a[i].x : e == 1 ? a[i].y : e == 2 ? a[i].z : a[i].w;
#pragma unroll
          for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(w, b[j], sum[i][j]);
        }
      }
    }
  }

  wait_copies<0>();
  __syncthreads();
  float* partial = weights + group * kRows * kColumns;  // [kGroups][kRows][kColumns]
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    float* at = partial + (down + i * 8) * kColumns + across * 4;
    four(at) = {sum[i][0], sum[i][1], sum[i][2], sum[i][3]};
    four(at + kColumns / 2) = {sum[i][4], sum[i][5], sum[i][6], sum[i][7]};
  }
  __syncthreads();
  float* to =
      static_cast<float*>(p.out.data) + head.b * p.out.batch + head.h * p.out.head + column0;
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kColumns; e += kThreads) {
    const int row = e / kColumns;
    if (i0 + row >= p.num_q_tiles) break;
    float total = weights[e];
#pragma unroll
    for (int g = 1; g < kGroups; ++g) total += weights[g * kRows * kColumns + e];
    if (!rounds) total *= inverse_smem[row];
    to[(i0 + row) * p.out.seq + e % kColumns] = rounded(total, p.rounding);
  }
}

template <int kGroups, int kStages, int kCtas>
Status launch_out(std::string_view operation, const CoarseParams& params, const dim3& grid,
                  cudaStream_t stream) {
  using Shape = OutShape<kGroups, kStages>;
  return launch(operation, coarse_out_kernel<kGroups, kStages, kCtas>,
                {.grid = grid,
                 .block = dim3(Shape::kThreads),
                 .smem_bytes = Shape::kFloats * 4,
                 .stream = stream,
                 .overlaps_previous = true},
                params);
}

}  // namespace

Status run_coarse_out(std::string_view operation, const CoarseParams& params, int64_t batch,
                      cudaStream_t stream) {
  const dim3 grid(grid_extent(params.head_dim, kColumns), grid_extent(params.num_q_tiles, kRows),
                  grid_extent(batch * params.num_heads));
  // More threads a CTA while all CTAs run at once, more CTAs a multiprocessor where they do not.
  if (int64_t{grid.x} * grid.y * grid.z <= kFewCtas) {
    return launch_out<4, 2, 3>(operation, params, grid, stream);
  }
  return launch_out<2, 3, 4>(operation, params, grid, stream);
}

}  // namespace vsa::cuda
