// The matrix product of a linear layer, with its bias and activation. Host-only.
#pragma once

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// What is applied to a result, bias included. Each call says which of them it takes.
enum class Activation : int {
  kNone = 0,
  kGeluTanh = 1,  ///< x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
  kSilu = 2,      ///< x / (1 + exp(-x))
};

/// out_m,n = activation(sum_k x_m,k * weight_n,k + bias_n), summed in f32 (reference: f64) and
/// rounded to the dtype of out once. Matrices are tensors of one batch item and one head. K and N
/// are multiples of 8.
struct LinearArgs {
  ConstTensor x;                              ///< [1, 1, M, K] of a token dtype
  ConstTensor weight;                         ///< [1, 1, N, K], dtype of x
  ConstTensor bias{};                         ///< [1, 1, 1, N], dtype of out; may be empty
  Activation activation = Activation::kNone;  ///< kNone or kGeluTanh
  Tensor out;                                 ///< [1, 1, M, N], dtype of x, or f32
};
/// Cost: 2 M N K FLOP. The cuda backend computes it with cuBLAS (vendor_library.h) and answers
/// Unsupported without it; it takes 32 MiB of workspace.
Status linear(const Context& context, const LinearArgs& args);

}  // namespace vsa
