// RMSNorm, rotary embedding and pooling of queries or keys, in one call and in place. Host-only.
#pragma once

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa {

/// Which elements of a token share one 1 / sqrt(mean(x^2) + eps).
enum class NormOver : int {
  kNothing = 0,   ///< no RMSNorm
  kHead = 1,      ///< the head_dim elements of each head
  kAllHeads = 2,  ///< the num_heads * head_dim elements of all heads, as in Wan
};

/// For every token of the plan, in place:
///   n = x * rstd * weight                                  rstd = 1 / sqrt(mean(x^2) + eps)
///   (x_2j, x_2j+1) = (n_2j cos_j - n_2j+1 sin_j, n_2j sin_j + n_2j+1 cos_j)
/// and then `pool` of what was written. Positions of no tile are neither read nor written.
struct NormRopePoolArgs {
  Tensor x;  ///< [B, H, S, D] token tensor; rounded to its dtype once
  const TilePlan* plan = nullptr;
  NormOver norm = NormOver::kAllHeads;
  float eps = 1e-6F;
  ConstTensor weight{};  ///< [1, H, 1, D] f32; empty: all ones. Per-head weights: stride[1] = 0
  /// [B, 1, S, 1] f32 with kAllHeads, [B, H, S, 1] with kHead; empty: computed from x. The caller
  /// passes it if x holds only some of the heads that share it.
  ConstTensor rstd{};
  ConstTensor cos{}, sin{};  ///< [1, 1, S, D / 2] f32; both empty: no rotation
  Tensor pooled{};           ///< [B, H, N, D] f32; may be empty
};
/// Cost: one read and one write of x.
Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args);

}  // namespace vsa
