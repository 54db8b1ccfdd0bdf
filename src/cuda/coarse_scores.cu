// The first coarse product: scores of tiles in fp32, as exact as the reference asks for (so no
// tensor cores), by register-blocked FMA on operands that cp.async brings. Each is written once;
// maxima and sums of exponentials of every 64 columns go beside them.
#include "src/cuda/chain.h"
#include "src/cuda/coarse_device.h"
#include "src/cuda/launch.h"

namespace vsa::cuda {
namespace {

constexpr int kRows = 128;  // of a CTA, as many as threads
constexpr int kDown = kRows / 8;
constexpr int kDepth = 32;  // of head_dim a step
constexpr int kStages = 2;
// Rows that are an odd number of 16 bytes apart: 8 of them lie on different banks.
constexpr int kPitch = kDepth + 4;
constexpr int kCtas = 3;  // of a multiprocessor

/// Scores of kRows x 64 tiles, 8 x 8 a thread: rows `down` + i * kRows / 8, columns `across` + 8 j.
/// grid: x kv tiles / 64, y query tiles / kRows, z batch * heads
__global__ void __launch_bounds__(kRows, kCtas)
    coarse_scores_kernel(const __grid_constant__ CoarseParams p) {
  extern __shared__ float4 raw_smem[];
  after_previous();
  auto* q_smem = reinterpret_cast<float*>(raw_smem);  // [kStages][kRows][kPitch]
  float* k_smem = q_smem + kStages * kRows * kPitch;  // [kStages][kColumns][kPitch]
  const HeadIdx head = head_of(p, blockIdx.z);
  const int i0 = static_cast<int>(blockIdx.y) * kRows;
  const int j0 = static_cast<int>(blockIdx.x) * kColumns;
  const Panel q = panel_of(p.q, head.b, head.h, p.num_q_tiles, p.head_dim);
  const Panel k = panel_of(p.k, head.b, head.kv, p.num_kv_tiles, p.head_dim);
  const auto [down, across] = place_of(static_cast<int>(threadIdx.x));

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
    for_each_four<kRows, kDepth, kRows>([&](int row, int column) {
      float4& at = four(a + row * kPitch + column);
      at = rounded(at, p.rounding);
    });
    for_each_four<kColumns, kDepth, kRows>([&](int row, int column) {
      float4& at = four(b + row * kPitch + column);
      at = rounded(at, p.rounding);
    });
  };
  for (int step = 0; step < kStages - 1; ++step) copy(step);
  unsigned empty = 0;  // bit j: the thread's column j has no token, or is beyond the end
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int column = j0 + across + j * kAcross;
    if (column >= p.num_kv_tiles || p.kv_len[column] == 0) empty |= 1U << j;
  }

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

  const auto for_each_score = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[i][j] = f(sum[i][j], j);
    }
  };
  if (p.rounding == CoarseRounding::kNone) {
    for_each_score([&](float x, int) { return x * p.scale; });
  } else {
    for_each_score(
        [&](float x, int) { return rounded(rounded(x, p.rounding) * p.scale, p.rounding); });
  }
  if (empty != 0) {
    for_each_score([&](float x, int j) { return (empty >> j & 1U) != 0 ? kMinusInfinity : x; });
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
    most = reduce_across(most, [](float x, float y) { return fmaxf(x, y); });
    const float base = subtracted(most);
    float total = 0.0F;
#pragma unroll
    for (int j = 0; j < 8; ++j) total += exp2_flushed((sum[i][j] - base) * kLog2E);
    total = reduce_across(total, [](float x, float y) { return x + y; });
    if (across == 0 && row < p.num_q_tiles) {
      const int64_t stats_row = int64_t{blockIdx.z} * p.num_q_tiles + row;
      p.stats[stats_row * gridDim.x + blockIdx.x] = {most, total};
    }
  }
}

}  // namespace

float2* take_coarse_stats(Carver& workspace, int64_t rows, int64_t num_kv_tiles) {
  return workspace.take<float2>(rows, (num_kv_tiles + kColumns - 1) / kColumns);
}

Status run_coarse_scores(std::string_view operation, const CoarseParams& params, int64_t batch,
                         cudaStream_t stream) {
  return launch(
      operation, coarse_scores_kernel,
      {.grid = dim3(grid_extent(params.num_kv_tiles, kColumns),
                    grid_extent(params.num_q_tiles, kRows), grid_extent(batch * params.num_heads)),
       .block = dim3(kRows),
       .smem_bytes = kStages * (kRows + kColumns) * kPitch * 4,
       .stream = stream,
       .overlaps_previous = true},
      params);
}

}  // namespace vsa::cuda
