// Asynchronous copies of rows of f32 into shared memory. Device-only.
#pragma once

#include <cstdint>

namespace vsa::cuda {

__device__ __forceinline__ uint32_t smem_offset(const float* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/// Copies the first `valid` of 4 floats and fills up with 0; both addresses are multiples of 16
/// bytes.
__device__ __forceinline__ void copy_four(float* to, const float* from, int valid = 4) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_offset(to)), "l"(from),
               "r"(valid * 4)
               : "memory");
}

/// The same for floats that lie anywhere.
__device__ __forceinline__ void copy_unaligned(float* to, const float* from, int valid) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem_offset(to + i)),
                 "l"(i < valid ? from + i : from), "r"(i < valid ? 4 : 0)
                 : "memory");
  }
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }

/// Waits until all but the newest kLeft groups of this thread's copies have arrived.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Part of a matrix: `rows` x `columns` valid floats at `from`, 0 beyond.
struct Panel {
  const float* from;
  int64_t stride;
  int rows, columns;
  bool aligned;  ///< every row begins at a multiple of 16 bytes
};

/// The 4 floats of a kRows x kColumns panel in shared memory that are this thread's: visit(row,
/// column) for each, rows kThreads / (kColumns / 4) apart.
template <int kRows, int kColumns, int kThreads, class Visit>
__device__ __forceinline__ void for_each_four(const Visit& visit) {
  constexpr int kAcross = kColumns / 4;
  static_assert(kRows * kAcross % kThreads == 0 && kThreads % kAcross == 0);
  const int column = static_cast<int>(threadIdx.x) % kAcross * 4;
  const int row = static_cast<int>(threadIdx.x) / kAcross;
#pragma unroll
  for (int i = 0; i < kRows; i += kThreads / kAcross) visit(row + i, column);
}

/// Copies the kRows x kColumns floats from (first_row, first_column) of the panel on to rows of
/// kPitch floats.
template <int kRows, int kColumns, int kPitch, int kThreads>
__device__ __forceinline__ void copy_panel(float* to, const Panel& panel, int first_row,
                                           int first_column) {
  const float* from = panel.from + first_row * panel.stride + first_column;
  const int rows = panel.rows - first_row;
  const int columns = panel.columns - first_column;
  if (panel.aligned && rows >= kRows && columns >= kColumns) {
    for_each_four<kRows, kColumns, kThreads>([&](int row, int column) {
      copy_four(to + row * kPitch + column, from + row * panel.stride + column);
    });
    return;
  }
  constexpr int kAcross = kColumns / 4;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kAcross; i += kThreads) {
    const int row = i / kAcross;
    const int column = i % kAcross * 4;
    const int valid = row < rows ? min(max(columns - column, 0), 4) : 0;
    const float* at = valid > 0 ? from + row * panel.stride + column : panel.from;
    if (panel.aligned) {
      copy_four(to + row * kPitch + column, at, valid);
    } else {
      copy_unaligned(to + row * kPitch + column, at, valid);
    }
  }
}

}  // namespace vsa::cuda
