// Attention of short sequences with a bias for each distance, as T5 has it. Host-only.
#pragma once

#include <optional>

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// out_i = sum_j softmax_j(scale * q_i . k_j + bias[j - i + Sq - 1]) v_j over all j. A row whose
/// scores are all -inf gives 0. Scores, weights and sums are f32 (reference: f64).
struct RelativeAttentionArgs {
  ConstTensor q;                 ///< [B, H, Sq, D] token tensor
  ConstTensor k, v;              ///< [B, H_kv, Sk, D], dtype of q; H % H_kv == 0
  ConstTensor bias;              ///< [B, H, 1, Sq + Sk - 1] f32, from j - i = 1 - Sq to Sk - 1
  std::optional<float> scale{};  ///< unitless; default 1 / sqrt(D), which T5 does not have: 1
  Tensor out;                    ///< [B, H, Sq, D], dtype of q
};
/// D is a multiple of 8 up to the largest head_dim of the backend. A bias that is the same for all
/// items of a batch has stride[0] = 0.
/// @return InvalidArgument | Unsupported (dtype, alignment or head_dim) | DeviceError
/// Cost: 4 * D FLOP per pair, without tensor cores on cuda: for prompts, not for videos. No
/// workspace. Asynchronous on `stream`; the same bits in every run. Oracle:
/// src/reference/relative_attention.cc.
Status relative_attention(const Context& context, const RelativeAttentionArgs& args);

}  // namespace vsa
