// combine and its gradients for one query tile. Host-only.
#include "src/cpu/combine/combine_kernel.h"

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/combine/combine_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {
namespace {

/// Numbers j.. of the gate for row i.
template <class T, class D>
HWY_INLINE hn::Vec<D> LoadGate(D d, const GateRows& gate, int64_t i, int64_t j) {
  if (gate.rows.data == nullptr) return hn::Set(d, gate.constant);
  return LoadF32(d, static_cast<const T*>(gate.rows.at(i)) + j);
}

}  // namespace

void CombineOfTile(const CombineTile& tile) {
  const bool has_fine = !tile.gate_fine.is_zero();
  const bool has_coarse = !tile.gate_coarse.is_zero();
  VisitDType(tile.out.dtype, [&]<class T>(T*) {
    for (int64_t i = 0; i < tile.out.count; ++i) {
      prefetch_row(tile.out, i + kPrefetchRows, tile.head_dim);
      prefetch_row(tile.gate_coarse.rows, i + kPrefetchRows, tile.head_dim);
      prefetch_row(tile.gate_fine.rows, i + kPrefetchRows, tile.head_dim);
      T* to = static_cast<T*>(tile.out.at(i));
      ForEachVector(tile.head_dim, [&](auto d, int64_t j) {
        auto sum = hn::Zero(d);
        if (has_fine) {
          sum = hn::Mul(LoadGate<T>(d, tile.gate_fine, i, j),
                        hn::LoadU(d, tile.fine_out + i * tile.ld + j));
        }
        if (has_coarse) {
          sum = hn::MulAdd(LoadGate<T>(d, tile.gate_coarse, i, j),
                           hn::LoadU(d, tile.coarse_out + j), sum);
        }
        StoreF32(d, sum, to + j);
      });
    }
  });
}

void CombineBackwardOfTile(const CombineBackwardTile& tile) {
  if (tile.dcoarse_out != nullptr) {
    for (int64_t j = 0; j < tile.head_dim; ++j) tile.dcoarse_out[j] = 0.0F;
  }
  VisitDType(tile.dout.dtype, [&]<class T>(T*) {
    const auto row = [](const auto& rows, int64_t i) {
      return rows.data == nullptr ? nullptr : static_cast<T*>(const_cast<void*>(rows.at(i)));
    };
    for (int64_t i = 0; i < tile.dout.count; ++i) {
      const T* dout_row = static_cast<const T*>(tile.dout.at(i));
      const T* fine_out = row(tile.fine_out, i);
      T* dfine_out = row(tile.dfine_out, i);
      T* dgate_fine = row(tile.dgate_fine, i);
      T* dgate_coarse = row(tile.dgate_coarse, i);
      ForEachVector(tile.head_dim, [&](auto d, int64_t j) {
        const auto dout = LoadF32(d, dout_row + j);
        if (dfine_out != nullptr) {
          StoreF32(d, hn::Mul(LoadGate<T>(d, tile.gate_fine, i, j), dout), dfine_out + j);
        }
        if (dgate_fine != nullptr) {
          StoreF32(d, hn::Mul(LoadF32(d, fine_out + j), dout), dgate_fine + j);
        }
        if (dgate_coarse != nullptr) {
          StoreF32(d, hn::Mul(hn::LoadU(d, tile.coarse_out + j), dout), dgate_coarse + j);
        }
        if (tile.dcoarse_out != nullptr) {
          const auto sum = hn::LoadU(d, tile.dcoarse_out + j);
          hn::StoreU(hn::MulAdd(LoadGate<T>(d, tile.gate_coarse, i, j), dout, sum), d,
                     tile.dcoarse_out + j);
        }
      });
    }
  });
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(CombineOfTile);
void combine_tile(const CombineTile& tile) { VSA_CPU_DISPATCH(CombineOfTile)(tile); }

HWY_EXPORT(CombineBackwardOfTile);
void combine_backward_tile(const CombineBackwardTile& tile) {
  VSA_CPU_DISPATCH(CombineBackwardOfTile)(tile);
}

}  // namespace vsa::cpu
#endif
