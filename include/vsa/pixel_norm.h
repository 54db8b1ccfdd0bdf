// Bias, residual addition, norm over channels and activation of every pixel in one pass. Host-only.
#pragma once

#include "vsa/backend.h"
#include "vsa/linear.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// What pixel_norm does with x.
enum class Residual : int {
  kAdd = 0,      ///< x = x + y + bias
  kReplace = 1,  ///< x = y + bias; what x held is not read
};

/// For every position b, h, s, over its D channels:
///   v   = y + bias (+ x)                                        stored in x, if there is an x
///   out = activation(v / max(|v|, 1e-12) * sqrt(D) * gamma)     without gamma: activation(v)
/// |v| is the square root of the sum of squares. With x, out is of v as it is stored, after the
/// rounding to its dtype. A NaN or an infinity in a position makes its whole out NaN, if there is a
/// gamma. Without bias, x, gamma and activation, out is a copy of y.
struct PixelNormArgs {
  ConstTensor y;       ///< [B, H, S, D] token tensor, such as what conv3d gives; D a multiple of 8
  ConstTensor bias{};  ///< [1, 1, 1, D] f32; empty: zeros
  Tensor x{};          ///< [B, H, S, D] of y's dtype; may be empty if there is an out
  Residual residual = Residual::kAdd;  ///< without x it has no effect
  ConstTensor gamma{};                 ///< [1, 1, 1, D] f32; empty: no norm; none without out
  Activation activation = Activation::kNone;  ///< kNone or kSilu; kNone without out
  /// [B, H, S, E] of y's dtype or f32; may be empty if there is an x. E = D; without gamma E may be
  /// less, and out has the first E channels.
  Tensor out{};
};
/// @return InvalidArgument | Unsupported (dtype or alignment; D above 1024 on cuda) | DeviceError
/// Cost: one read of y and of an x that is added to, one write of x and out. No workspace.
/// Asynchronous on `stream`; the same bits in every run. Oracle: src/reference/pixel_norm.cc.
Status pixel_norm(const Context& context, const PixelNormArgs& args);

}  // namespace vsa
