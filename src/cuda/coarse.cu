// coarse: attention between tiles in fp32, as exact as the reference asks for (so no tensor cores).
// Two products by register-blocked FMA, their operands brought by cp.async: scores, each written
// once together with maxima and sums of each 64 columns, then out = softmax(scores) v.
#include <cuda_bf16.h>

#include "src/cuda/coarse.h"
#include "src/cuda/launch.h"
#include "src/cuda/smem_copy.h"

namespace vsa::cuda {
namespace {

constexpr unsigned kAll = ~0U;
constexpr float kMinusInfinity = -__builtin_huge_valf();
constexpr float kLog2E = 1.4426950408889634F;
constexpr int kColumns = 64;  // of a CTA, in both products: 8 threads of 8 each
constexpr int kAcross = 8;

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
__device__ __forceinline__ float4 rounded(const float4& x, CoarseRounding rounding) {
  return {rounded(x.x, rounding), rounded(x.y, rounding), rounded(x.z, rounding),
          rounded(x.w, rounding)};
}

__device__ __forceinline__ float4& four(float* at) { return *reinterpret_cast<float4*>(at); }
__device__ __forceinline__ float4 four(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

template <class R>
__device__ __forceinline__ Panel panel_of(const R& x, int b, int h, int rows, int columns) {
  const float* from = static_cast<const float*>(x.data) + b * x.batch + h * x.head;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(x.seq) * 4) % 16 == 0;
  return {from, x.seq, rows, columns, aligned};
}

/// What is subtracted before exp: the maximum, or 0 if there is no finite score. Then exp2(-inf) is
/// the right 0, and NaN stays.
__device__ __forceinline__ float subtracted(float most) {
  return most == kMinusInfinity ? 0.0F : most;
}

// --- scores --------------------------------------------------------------------------------------

/// Scores of kRows x 64 tiles, one thread a row, of each 8 x 8 scores: rows t / 8 + i * kRows / 8,
/// columns t % 8 + 8 j. grid: x kv tiles / 64, y query tiles / kRows, z batch * heads
template <int kRows, int kDepth, int kStages>
__global__ void __launch_bounds__(kRows, 384 / kRows)
    coarse_scores_kernel(const __grid_constant__ CoarseParams p) {
  // Rows that are an odd number of 16 bytes apart: 8 of them lie on different banks.
  constexpr int kPitch = kDepth + 4;
  constexpr int kDown = kRows / 8;
  extern __shared__ float4 raw_smem[];
  auto* q_smem = reinterpret_cast<float*>(raw_smem);  // [kStages][kRows][kPitch]
  float* k_smem = q_smem + kStages * kRows * kPitch;  // [kStages][kColumns][kPitch]
  const HeadIdx head = head_of(p, blockIdx.z);
  const int i0 = static_cast<int>(blockIdx.y) * kRows;
  const int j0 = static_cast<int>(blockIdx.x) * kColumns;
  const Panel q = panel_of(p.q, head.b, head.h, p.num_q_tiles, p.head_dim);
  const Panel k = panel_of(p.k, head.b, head.kv, p.num_kv_tiles, p.head_dim);
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const int across = static_cast<int>(threadIdx.x) % kAcross;

  const int num_steps = p.head_dim / kDepth;
  const auto copy = [&](int step) {
    if (step < num_steps) {
      const int stage = step % kStages;
      copy_panel<kRows, kDepth, kPitch, kRows>(q_smem + stage * kRows * kPitch, q, i0,
                                               step * kDepth);
      copy_panel<kColumns, kDepth, kPitch, kRows>(k_smem + stage * kColumns * kPitch, k, j0,
                                                  step * kDepth);
    }
    commit_copies();
  };
  const auto round_own = [&](float* a, float* b) {
    for_each_piece<kRows, kDepth, kRows>([&](int row, int column) {
      four(a + row * kPitch + column) = rounded(four(a + row * kPitch + column), p.rounding);
    });
    for_each_piece<kColumns, kDepth, kRows>([&](int row, int column) {
      four(b + row * kPitch + column) = rounded(four(b + row * kPitch + column), p.rounding);
    });
  };
  for (int step = 0; step < kStages - 1; ++step) copy(step);

  float sum[8][8] = {};
  for (int step = 0; step < num_steps; ++step) {
    float* a_smem = q_smem + step % kStages * kRows * kPitch;
    float* b_smem = k_smem + step % kStages * kColumns * kPitch;
    wait_copies<kStages - 2>();
    if (p.rounding != CoarseRounding::kNone) round_own(a_smem, b_smem);
    __syncthreads();
    copy(step + kStages - 1);
    const float* a_rows = a_smem + down * kPitch;
    const float* b_rows = b_smem + across * kPitch;
#pragma unroll 1
    for (int d = 0; d < kDepth; d += 4) {
      float4 a[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i] = four(a_rows + i * kDown * kPitch + d);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float4 b = four(b_rows + j * kAcross * kPitch + d);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i][j] = fmaf(a[i].x, b.x, sum[i][j]);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i][j] = fmaf(a[i].y, b.y, sum[i][j]);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i][j] = fmaf(a[i].z, b.z, sum[i][j]);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i][j] = fmaf(a[i].w, b.w, sum[i][j]);
      }
    }
  }

#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int column = j0 + across + j * kAcross;
    const bool empty = column >= p.num_kv_tiles || p.kv_len[column] == 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float score = rounded(rounded(sum[i][j], p.rounding) * p.scale, p.rounding);
      sum[i][j] = empty ? kMinusInfinity : score;
    }
  }
  float* to = static_cast<float*>(p.scores.data) + head.b * p.scores.batch + head.h * p.scores.head;
  const int columns_left = p.num_kv_tiles - j0 - across;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = i0 + down + i * kDown;
    if (row < p.num_q_tiles) {
      float* at = to + row * p.scores.seq + j0 + across;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (j * kAcross < columns_left) at[j * kAcross] = sum[i][j];
      }
    }
    if (p.stats == nullptr) continue;
    float most = sum[i][0];
#pragma unroll
    for (int j = 1; j < 8; ++j) most = fmaxf(most, sum[i][j]);
    for (int mask = kAcross / 2; mask > 0; mask /= 2)
      most = fmaxf(most, __shfl_xor_sync(kAll, most, mask));
    const float base = subtracted(most);
    float total = 0.0F;
#pragma unroll
    for (int j = 0; j < 8; ++j) total += exp2f((sum[i][j] - base) * kLog2E);
    for (int mask = kAcross / 2; mask > 0; mask /= 2) total += __shfl_xor_sync(kAll, total, mask);
    if (across == 0 && row < p.num_q_tiles) {
      const int64_t stats_row = int64_t{blockIdx.z} * p.num_q_tiles + row;
      p.stats[stats_row * gridDim.x + blockIdx.x] = {most, total};
    }
  }
}

// --- out -----------------------------------------------------------------------------------------

/// Maximum of a row (0 if it has none) and the inverse of its sum of exponentials.
__device__ __forceinline__ float2 row_statistics(const float2* stats, int count) {
  float most = kMinusInfinity;
  for (int i = 0; i < count; ++i) most = fmaxf(most, stats[i].x);
  most = subtracted(most);
  float sum = 0.0F;
  for (int i = 0; i < count; ++i) sum = fmaf(exp2f((stats[i].x - most) * kLog2E), stats[i].y, sum);
  return {most, sum == 0.0F ? 0.0F : 1.0F / sum};  // 0: no kv tile has a token
}

/// out of 8 kRowsOfThread query tiles and 64 columns. kGroups of 64 threads, each of which takes
/// 16 of the kv tiles of a step; their sums are added in order at the end.
/// grid: x columns / 64, y query tiles / rows, z batch * heads
template <int kRowsOfThread, int kGroups, int kStages>
__global__ void __launch_bounds__(64 * kGroups, (kRowsOfThread == 4 ? 8 : 6) / kGroups)
    coarse_out_kernel(const __grid_constant__ CoarseParams p) {
  constexpr int kThreads = 64 * kGroups;
  constexpr int kRows = 8 * kRowsOfThread;
  constexpr int kDepthOfGroup = 16;
  constexpr int kDepth = kDepthOfGroup * kGroups;
  constexpr int kPitch = kDepth + 4;
  static_assert(kStages * (kRows * kPitch + kDepth * kColumns) >= kGroups * kRows * kColumns);
  extern __shared__ float4 raw_smem[];
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
  const int down = static_cast<int>(threadIdx.x) % 64 / kAcross;
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  float sum[kRowsOfThread][8] = {};
  for (int step = 0; step < num_steps; ++step) {
    float* a_smem = weights + step % kStages * kRows * kPitch;
    float* b_smem = v_smem + step % kStages * kDepth * kColumns;
    wait_copies<kStages - 2>();
    // Scores become weights where they are, each by the thread that copied it.
    for_each_piece<kRows, kDepth, kThreads>([&](int row, int column) {
      float* at = a_smem + row * kPitch + column;
      const float most = max_smem[row];
      const int left = p.num_kv_tiles - step * kDepth - column;
      const auto weight = [&](float score, int i) {
        const float w = i < left ? exp2f((score - most) * kLog2E) : 0.0F;
        return rounds ? rounded(w * inverse_smem[row], p.rounding) : w;
      };
      const float4 s = four(at);
      four(at) = {weight(s.x, 0), weight(s.y, 1), weight(s.z, 2), weight(s.w, 3)};
    });
    if (rounds) {
      for_each_piece<kDepth, kColumns, kThreads>([&](int row, int column) {
        float* at = b_smem + row * kColumns + column;
        four(at) = rounded(four(at), p.rounding);
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

unsigned ceil_div(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

Status launch_scores(std::string_view operation, const CoarseParams& params, unsigned heads,
                     cudaStream_t stream) {
  constexpr int kRows = 128;
  constexpr int kDepth = 32;
  constexpr int kStages = 2;
  return launch(operation, coarse_scores_kernel<kRows, kDepth, kStages>,
                {.grid = dim3(ceil_div(params.num_kv_tiles, kColumns),
                              ceil_div(params.num_q_tiles, kRows), heads),
                 .block = dim3(kRows),
                 .smem_bytes = kStages * (kRows + kColumns) * (kDepth + 4) * 4,
                 .stream = stream},
                params);
}

Status launch_out(std::string_view operation, const CoarseParams& params, unsigned heads,
                  cudaStream_t stream) {
  constexpr int kRowsOfThread = 4;
  constexpr int kGroups = 2;
  constexpr int kStages = 2;
  constexpr int kRows = 8 * kRowsOfThread;
  constexpr int kDepth = 16 * kGroups;
  return launch(operation, coarse_out_kernel<kRowsOfThread, kGroups, kStages>,
                {.grid = dim3(ceil_div(params.head_dim, kColumns),
                              ceil_div(params.num_q_tiles, kRows), heads),
                 .block = dim3(64 * kGroups),
                 .smem_bytes = kStages * (kRows * (kDepth + 4) + kDepth * kColumns) * 4,
                 .stream = stream},
                params);
}

}  // namespace

float2* take_coarse_stats(Carver& workspace, int64_t rows, int64_t num_kv_tiles) {
  return workspace.take<float2>(rows * ceil_div(num_kv_tiles, kColumns));
}

Status run_coarse(std::string_view operation, const CoarseParams& params, int64_t batch,
                  cudaStream_t stream) {
  const auto heads = static_cast<unsigned>(batch * params.num_heads);
  VSA_TRY(launch_scores(operation, params, heads, stream));
  if (params.out.data == nullptr) return {};
  return launch_out(operation, params, heads, stream);
}

}  // namespace vsa::cuda
