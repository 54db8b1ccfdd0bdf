// Copies parts of an f32 matrix to shared memory by cp.async. Device-only.
#pragma once

#include <cstdint>

namespace vsa::cuda {

__device__ __forceinline__ uint32_t smem_offset(const float* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/// Starts copying the first `valid` of 4 floats; the others become 0, and their addresses are not
/// read. kAligned: both addresses are multiples of 16 bytes.
template <bool kAligned>
__device__ __forceinline__ void copy_four(float* to, const float* from, int valid = 4) {
  if constexpr (kAligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_offset(to)), "l"(from),
                 "r"(valid * 4)
                 : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem_offset(to + i)),
                   "l"(from + i), "r"(i < valid ? 4 : 0)
                   : "memory");
    }
  }
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }

/// Waits until all but the most recent kLeft groups of this thread's copies have arrived.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Part of a matrix: `rows` x `columns` valid floats at `from`; elements beyond them count as 0.
struct Panel {
  const float* from;
  int64_t stride;
  int rows, columns;
};

/// Calls visit(row, column) for every 4 adjacent floats of a kRows x kColumns panel that this
/// thread is responsible for. Their rows are kThreads / (kColumns / 4) apart.
template <int kRows, int kColumns, int kThreads, class Visit>
__device__ __forceinline__ void for_each_four(const Visit& visit) {
  constexpr int kAcross = kColumns / 4;
  static_assert(kRows * kAcross % kThreads == 0 && kThreads % kAcross == 0);
  const int column = static_cast<int>(threadIdx.x) % kAcross * 4;
  const int row = static_cast<int>(threadIdx.x) / kAcross;
#pragma unroll
  for (int i = 0; i < kRows; i += kThreads / kAcross) visit(row + i, column);
}

/// Copies panels of kRows x kColumns floats, one after the other, to buffers with rows of kPitch
/// floats. kAligned: every row begins at a multiple of 16 bytes.
template <int kRows, int kColumns, int kPitch, int kThreads, bool kAligned>
class PanelCopy {
 public:
  __device__ __forceinline__ PanelCopy(const Panel& panel, int first_row, int first_column)
      : from_(panel.from + first_row * panel.stride + first_column),
        stride_(panel.stride),
        rows_(panel.rows - first_row),
        columns_(panel.columns - first_column) {
    from_ += static_cast<int>(threadIdx.x) / (kColumns / 4) * stride_ +
             static_cast<int>(threadIdx.x) % (kColumns / 4) * 4;
  }

  __device__ __forceinline__ void start(float* to) const {
    if (rows_ >= kRows && columns_ >= kColumns) {
      for_each([&](int row, int column, const float* at) {
        copy_four<kAligned>(to + row * kPitch + column, at);
      });
    } else {
      for_each([&](int row, int column, const float* at) {
        copy_four<kAligned>(to + row * kPitch + column, at,
                            row < rows_ ? min(max(columns_ - column, 0), 4) : 0);
      });
    }
  }
  __device__ __forceinline__ void move_right() {
    from_ += kColumns;
    columns_ -= kColumns;
  }
  __device__ __forceinline__ void move_down() {
    from_ += kRows * stride_;
    rows_ -= kRows;
  }

 private:
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
    const float* at = from_;
    for_each_four<kRows, kColumns, kThreads>([&](int row, int column) {
      visit(row, column, at);
      at += kThreads / (kColumns / 4) * stride_;
    });
  }

  const float* from_;  // the first 4 floats that this thread copies
  int64_t stride_;
  int rows_, columns_;
};

}  // namespace vsa::cuda
