// Asynchronous copies of rows of f32 into shared memory. Device-only.
#pragma once

#include <cstdint>

namespace vsa::cuda {

/// Copies `valid` floats (at most 4) and fills up to 4 with 0. `to` is 16-byte aligned; `from` too
/// if kAligned.
template <bool kAligned>
__device__ __forceinline__ void copy_async(float* to, const float* from, int valid) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kAligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(valid * 4)
                 : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address + 4 * i),
                   "l"(i < valid ? from + i : from), "r"(i < valid ? 4 : 0)
                   : "memory");
    }
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

/// Calls visit(row, column) for every 4 floats of a kRows x kColumns panel that are this thread's.
template <int kRows, int kColumns, int kThreads, class Visit>
__device__ __forceinline__ void for_each_piece(const Visit& visit) {
  constexpr int kAcross = kColumns / 4;
  static_assert(kRows * kAcross % kThreads == 0 && kThreads % kAcross == 0);
  const int column = static_cast<int>(threadIdx.x) % kAcross * 4;
  const int row = static_cast<int>(threadIdx.x) / kAcross;
#pragma unroll
  for (int i = 0; i < kRows; i += kThreads / kAcross) visit(row + i, column);
}

/// Copies columns `first` to first + kColumns - 1 of the panel to rows of kPitch floats.
template <int kRows, int kColumns, int kPitch, int kThreads>
__device__ __forceinline__ void copy_panel(float* to, const Panel& panel, int first_row,
                                           int first_column) {
  for_each_piece<kRows, kColumns, kThreads>([&](int row, int column) {
    const int left = panel.columns - first_column - column;
    const int valid = first_row + row < panel.rows ? min(max(left, 0), 4) : 0;
    const float* from = valid > 0
                            ? panel.from + (first_row + row) * panel.stride + first_column + column
                            : panel.from;
    if (panel.aligned) {
      copy_async<true>(to + row * kPitch + column, from, valid);
    } else {
      copy_async<false>(to + row * kPitch + column, from, valid);
    }
  });
}

}  // namespace vsa::cuda
