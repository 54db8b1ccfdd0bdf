// The matrix product C (+)= A B in fp32: a register block walks down the rows of A, panel by panel
// of B. Host-only.
//
// Of B's panel [k, 4 vectors] every number is used by 6 rows and of A every number by 4 vectors, so
// a step in k does 24 multiply-adds for 10 loads. The sums leave the registers once per call.
#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/support/gemm.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {
namespace {

/// One block: kRows rows of A times kVectors vectors of B's columns.
template <int kRows, int kVectors, Store kStore>
void Block(const MatrixA& a_block, const MatrixB::Panel& panel, int64_t k, float* HWY_RESTRICT c,
           int64_t ldc) {
  const FloatTag d;
  const float* HWY_RESTRICT a = a_block.data;
  const float* HWY_RESTRICT b = panel.data;
  const int64_t row_stride = a_block.row_stride;

  FloatVec sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < k; ++i) {
    FloatVec b_row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) b_row[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const FloatVec a_value = hn::Set(d, a[r * row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(a_value, b_row[v], sum[r][v]);
    }
    a += a_block.k_stride;
    b += panel.row_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * ldc + v * kLanes;
      if constexpr (kStore == Store::kAdd) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(d, to));
      hn::StoreU(sum[r][v], d, to);
    }
  }
}

/// All rows of A times one panel of B that is kVectors wide.
template <int kVectors, Store kStore>
void RowBlocks(MatrixA a, int64_t m, const MatrixB::Panel& panel, int64_t k, float* c,
               int64_t ldc) {
  const auto rows = [&]<int kRows>() {
    Block<kRows, kVectors, kStore>(a, panel, k, c, ldc);
    a.data += kRows * a.row_stride;
    c += kRows * ldc;
    m -= kRows;
  };
  while (m >= kBlockRows) rows.template operator()<kBlockRows>();
  if (m >= 4) rows.template operator()<4>();
  if (m >= 2) rows.template operator()<2>();
  if (m >= 1) rows.template operator()<1>();
}

template <Store kStore>
void PanelsOf(const MatrixA& a, int64_t m, const MatrixB& b, float* c, int64_t ldc) {
  for (int64_t col = 0; col < b.cols; col += kPanelCols) {
    const MatrixB::Panel panel = b.panel(col);
    switch (std::min(kPanelCols, b.cols - col) / kLanes) {
      case 1:
        RowBlocks<1, kStore>(a, m, panel, b.k, c + col, ldc);
        break;
      case 2:
        RowBlocks<2, kStore>(a, m, panel, b.k, c + col, ldc);
        break;
      case 3:
        if constexpr (kBlockVectors > 2) RowBlocks<3, kStore>(a, m, panel, b.k, c + col, ldc);
        break;
      default:
        RowBlocks<kBlockVectors, kStore>(a, m, panel, b.k, c + col, ldc);
        break;
    }
  }
}

}  // namespace

void Gemm(const MatrixA& a, int64_t m, const MatrixB& b, float* c, int64_t ldc, Store store) {
  if (store == Store::kAdd) {
    PanelsOf<Store::kAdd>(a, m, b, c, ldc);
  } else {
    PanelsOf<Store::kOverwrite>(a, m, b, c, ldc);
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
