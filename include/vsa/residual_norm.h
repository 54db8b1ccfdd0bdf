// Residual addition, gate, layer or RMS norm and modulation of every token in one pass. Host-only.
#pragma once

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// What a norm divides by, and whether it takes the mean off before.
enum class NormKind : int {
  kLayer = 0,
  kRms = 1,  ///< mean(x) is taken as 0, so var is mean(x^2)
};

/// For every token b, s, over the H * D elements of all its heads:
///   x   = x + gate * y                                        without y, x is only read
///   out = (x - mean(x)) / sqrt(var(x) + eps) * scale + shift  without out, there is no norm
/// var is the mean of (x - mean(x))^2, as in torch.nn.LayerNorm. Both are of x as it is stored,
/// after the rounding to its dtype. All S positions are tokens. A NaN or an infinity in a token
/// makes its whole out NaN.
///
/// A block of Wan has a scale of 1 + scale and a shift from the time embedding, or the weight and
/// the bias of its layer norm. A block of T5 has an RMS norm with a scale.
struct ResidualNormArgs {
  Tensor x;             ///< [B, H, S, D] f32, or the dtype of y and out; rounded to it once
  ConstTensor y{};      ///< [B, H, S, D] token tensor; may be empty if there is an out
  ConstTensor gate{};   ///< [B, H, 1, D] f32; empty: all ones; none without y
  ConstTensor scale{};  ///< [B, H, 1, D] f32; empty: all ones; none without out
  ConstTensor shift{};  ///< [B, H, 1, D] f32; empty: all zeros; none without out
  float eps = 1e-6F;    ///< >= 0
  NormKind norm = NormKind::kLayer;
  Tensor out{};  ///< [B, H, S, D] token tensor, of y's dtype; may be empty if there is a y
};
/// gate, scale and shift that are the same for all items of a batch have stride[0] = 0.
/// @return InvalidArgument | Unsupported (dtype or alignment; D, which is a multiple of 8 on the
/// cpu and cuda backends; H * D above 8192 on cuda) | DeviceError
/// Cost: one read of x and y, one write of x and out. No workspace. Asynchronous on `stream`; the
/// same bits in every run. Oracle: src/reference/residual_norm.cc.
Status residual_norm(const Context& context, const ResidualNormArgs& args);

}  // namespace vsa
