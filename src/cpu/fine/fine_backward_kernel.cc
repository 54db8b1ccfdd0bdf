// The fine stage's gradients for one tile. Host-only.
//
// For every pair of tiles that the table keeps, with L = lse and delta = dout . out:
//   S = Q K^T    P = 2^(S - L)    dP = dO V^T    dS = P (dP - delta)
//   dQ += dS K         in the walk over a query tile's kv tiles
//   dK += dS^T Q, dV += P^T dO   in the walk over a kv tile's query tiles
// The walks share no sums, and each computes P: 7 products a pair instead of 5, but no atomics, no
// buffer of gradients for each thread, and a fixed order of summation.
#include "src/cpu/fine/fine_backward_kernel.h"

#include <algorithm>

#include "src/cpu/support/isa.h"
#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/fine/fine_backward_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/exp-inl.h"
#include "src/cpu/support/gemm-inl.h"
#include "src/cpu/support/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {
namespace {

/// The probabilities of a pair of tiles and their gradient.
struct Pair {
  float* p;   // [rows, ld]
  float* ds;  // [rows, ld]
  int64_t ld, num_rows, num_keys, cols;
};

/// Computes p and ds. Columns from num_keys on hold anything.
Pair Probabilities(const KeyTile& keys, const QueryTile& queries, int64_t head_dim,
                   float* scratch) {
  const FloatTag d;
  const int64_t ld = round_up_lanes(keys.num_keys);
  const int64_t ld_q = round_up_lanes(head_dim);
  const Pair pair{.p = scratch,
                  .ds = scratch + queries.num_rows * ld,
                  .ld = ld,
                  .num_rows = queries.num_rows,
                  .num_keys = keys.num_keys,
                  .cols = RoundUpLanes(keys.num_keys)};
  Gemm({.data = queries.q, .row_stride = ld_q}, pair.num_rows,
       {.data = keys.k_transposed, .k = head_dim, .cols = pair.cols}, pair.p, ld,
       Store::kOverwrite);
  Gemm({.data = queries.dout, .row_stride = ld_q}, pair.num_rows,
       {.data = keys.v_transposed, .k = head_dim, .cols = pair.cols}, pair.ds, ld,
       Store::kOverwrite);
  for (int64_t r = 0; r < pair.num_rows; ++r) {
    const FloatVec lse = hn::Set(d, queries.lse_log2[r]);
    const FloatVec delta = hn::Set(d, queries.delta[r]);
    float* HWY_RESTRICT p = pair.p + r * ld;
    float* HWY_RESTRICT ds = pair.ds + r * ld;
    for (int64_t j = 0; j < pair.cols; j += kLanes) {
      const FloatVec weight = Exp2(d, hn::Sub(hn::LoadU(d, p + j), lse));
      hn::StoreU(weight, d, p + j);
      hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, ds + j), delta)), d, ds + j);
    }
  }
  return pair;
}

}  // namespace

void LoadOutputGradient(const OutputGradient& tile, float* dout, float* delta) {
  const int64_t ld = round_up_lanes(tile.head_dim);
  VisitDType(tile.dout.dtype, [&]<class T>(T*) {
    for (int64_t i = 0; i < tile.dout.count; ++i) {
      const T* gradient = static_cast<const T*>(tile.dout.at(i));
      const T* out = static_cast<const T*>(tile.out.at(i));
      const T* gate =
          tile.gate.rows.data != nullptr ? static_cast<const T*>(tile.gate.rows.at(i)) : nullptr;
      float* row = dout + i * ld;
      float sum = 0.0F;
      ForEachVector(tile.head_dim, [&](auto d, int64_t j) {
        const auto weight = gate != nullptr ? LoadF32(d, gate + j) : hn::Set(d, tile.gate.constant);
        const auto x = hn::Mul(weight, LoadF32(d, gradient + j));
        hn::StoreU(x, d, row + j);
        sum += hn::GetLane(hn::SumOfLanes(d, hn::Mul(x, LoadF32(d, out + j))));
      });
      for (int64_t j = tile.head_dim; j < ld; ++j) row[j] = 0.0F;
      delta[i] = sum;
    }
  });
}

void FineDqOfTile(const KeyTiles& keys, const QueryTile& queries, std::span<const int32_t> kv_tiles,
                  float* scratch, float* dq) {
  record_target(HWY_TARGET);
  const int64_t ld = round_up_lanes(keys.head_dim);
  std::fill_n(dq, queries.num_rows * ld, 0.0F);
  for (const int32_t j : kv_tiles) {
    const KeyTile tile = keys.tile(j);
    if (tile.num_keys == 0) continue;
    const Pair pair = Probabilities(tile, queries, keys.head_dim, scratch);
    Gemm({.data = pair.ds, .row_stride = pair.ld}, pair.num_rows,
         {.data = tile.k_rows, .k = pair.num_keys, .cols = RoundUpLanes(keys.head_dim)}, dq, ld,
         Store::kAdd);
  }
}

void FineDkvOfTile(const KeyTile& keys, const QueryTiles& queries, std::span<const int32_t> q_tiles,
                   float* scratch, float* dk, float* dv) {
  const int64_t ld = round_up_lanes(queries.head_dim);
  if (keys.num_keys == 0) return;
  for (const int32_t i : q_tiles) {
    const QueryTile tile = queries.tile(i);
    const Pair pair = Probabilities(keys, tile, queries.head_dim, scratch);
    const auto rows = [&](const float* x) {
      return MatrixB{
          .data = x, .k = pair.num_rows, .cols = RoundUpLanes(queries.head_dim), .row_stride = ld};
    };
    Gemm({.data = pair.p, .row_stride = 1, .k_stride = pair.ld}, pair.num_keys, rows(tile.dout), dv,
         ld, Store::kAdd);
    Gemm({.data = pair.ds, .row_stride = 1, .k_stride = pair.ld}, pair.num_keys, rows(tile.q), dk,
         ld, Store::kAdd);
  }
}

void StoreGradient(const float* gradient, float factor, const float* pooled, int64_t head_dim,
                   const MutableRows& to) {
  const int64_t ld = round_up_lanes(head_dim);
  const float share = 1.0F / static_cast<float>(to.count);
  VisitDType(to.dtype, [&]<class T>(T*) {
    for (int64_t i = 0; i < to.count; ++i) {
      T* row = static_cast<T*>(to.at(i));
      ForEachVector(head_dim, [&](auto d, int64_t j) {
        auto x = hn::Mul(hn::LoadU(d, gradient + i * ld + j), hn::Set(d, factor));
        if (pooled != nullptr) x = hn::MulAdd(hn::LoadU(d, pooled + j), hn::Set(d, share), x);
        StoreF32(d, x, row + j);
      });
    }
  });
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(LoadOutputGradient);
void load_output_gradient(const OutputGradient& tile, float* dout, float* delta) {
  VSA_CPU_DISPATCH(LoadOutputGradient)(tile, dout, delta);
}

HWY_EXPORT(FineDqOfTile);
void fine_dq_tile(const KeyTiles& keys, const QueryTile& queries, std::span<const int32_t> kv_tiles,
                  float* scratch, float* dq) {
  VSA_CPU_DISPATCH(FineDqOfTile)(keys, queries, kv_tiles, scratch, dq);
}

HWY_EXPORT(FineDkvOfTile);
void fine_dkv_tile(const KeyTile& keys, const QueryTiles& queries, std::span<const int32_t> q_tiles,
                   float* scratch, float* dk, float* dv) {
  VSA_CPU_DISPATCH(FineDkvOfTile)(keys, queries, q_tiles, scratch, dk, dv);
}

HWY_EXPORT(StoreGradient);
void store_gradient(const float* gradient, float factor, const float* pooled, int64_t head_dim,
                    const MutableRows& to) {
  VSA_CPU_DISPATCH(StoreGradient)(gradient, factor, pooled, head_dim, to);
}

}  // namespace vsa::cpu
#endif
