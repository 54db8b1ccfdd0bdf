// Whether what the GPU computed is right, on sampled query tiles, by fp64 on the host. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "vsa/lut.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::bench {

/// Host copies of one problem, B = 1, [S, H, D] in raster order.
struct HostProblem {
  DType dtype = DType::kBF16;
  int64_t num_heads = 0, head_dim = 0;
  const TilePlan* plan = nullptr;
  std::vector<uint16_t> q, k, v, gate;
  std::vector<int32_t> index, count;  // [H, Nq, pitch], [H, Nq]
  int64_t pitch = 0;
};

/// |got - want|_2 / |want|_2 over all tokens of sampled query tiles; NaN if any element is one.
/// @param out   [S, H, D]
/// @param whole  true: out is the operator with gate_coarse = gate and gate_fine = 1, else fine
/// alone
double sampled_error(const HostProblem& problem, const std::vector<uint16_t>& out, bool whole);

/// Pairs of valid query and key tokens that the table keeps.
double kept_pairs(const HostProblem& problem);

/// Of the tiles that neighbouring query tiles (2 i, 2 i + 1) keep, the share that both keep.
double shared_share(const HostProblem& problem);

}  // namespace vsa::bench
