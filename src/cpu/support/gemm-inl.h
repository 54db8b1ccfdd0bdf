// The one matrix product of the CPU backend, as seen by the kernels of the same target. Defined in
// gemm.cc. Host-only.
//
//   C[m, n] (+)= A[m, k] B[k, n]
//
// A is read one number at a time by any two strides, so it may be transposed. B is read in panels:
// runs of columns as wide as the micro-kernel's registers.
#if defined(VSA_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VSA_CPU_GEMM_INL_H_
#undef VSA_CPU_GEMM_INL_H_
#else
#define VSA_CPU_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// All targets here have vectors of fixed size, so that the largest size is the size.
inline constexpr int64_t kLanes = hn::MaxLanes(FloatTag());

// Rows and vectors of the block of C that stays in registers: with 32 registers 6 * 4 sums + 4 of
// B + 1 of A, with 16 registers 6 * 2 + 2 + 1. Both keep more sums than the FMA units have
// instructions in flight (2 units * 4 or 5 cycles).
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON) ? 4 : 2;
inline constexpr int64_t kPanelCols = kBlockVectors * kLanes;

/// Reads element (i, k) at data[i * row_stride + k * k_stride].
struct MatrixA {
  const float* data;
  int64_t row_stride;
  int64_t k_stride = 1;
};

/// `k` rows of `cols` numbers, cols a multiple of kLanes. Either plain rows with a row stride, or
/// (row_stride 0) packed: panel after panel, each [k, kPanelCols], the last one maybe narrower.
struct MatrixB {
  const float* data;
  int64_t k;
  int64_t cols;
  int64_t row_stride = 0;

  struct Panel {
    const float* data;
    int64_t row_stride;
  };
  Panel panel(int64_t first_col) const {
    if (row_stride != 0) return {data + first_col, row_stride};
    return {data + first_col * k, std::min(kPanelCols, cols - first_col)};
  }
};

enum class Store { kOverwrite, kAdd };

/// C = A B or C += A B over all of B's rows and columns; C has m rows at stride ldc and is written
/// up to B's (rounded) number of columns. The order of summation over k is that of k, whatever m
/// and n are.
void Gemm(const MatrixA& a, int64_t m, const MatrixB& b, float* c, int64_t ldc, Store store);

inline int64_t RoundUpLanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
