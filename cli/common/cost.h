// What an attention costs, counted rather than measured. Host-only.
#pragma once

#include <cstdint>

#include "vsa/lut.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// The extents of one attention, for designated initialisers.
struct AttentionDims {
  int64_t batch = 1;
  int64_t num_heads = 1;
  int64_t num_kv_heads = 1;
  int64_t head_dim = 128;
};

/// FLOPs of q k^T and p v for that many pairs of tokens (or tiles) in one head: 2 D each.
double pair_flops(double num_pairs, int64_t head_dim);

/// Pairs of tokens in one head if every query tile keeps `topk` kv tiles.
struct PairRange {
  double least = 0.0;     ///< the rows keep the shortest tiles
  double expected = 0.0;  ///< any tile is as likely as any other
  double most = 0.0;      ///< the rows keep the longest tiles
};
PairRange kept_pairs(const TilePlan& q_plan, const TilePlan& kv_plan, int64_t topk);

/// Pairs of tokens that a look-up table names, summed over batch and heads.
double kept_pairs(const TilePlan& q_plan, const TilePlan& kv_plan, const ConstLut& lut);

}  // namespace vsa::cli
