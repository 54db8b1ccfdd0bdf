// What residual_norm must give, for any backend.
#pragma once

#include <functional>
#include <string>

#include "tests/support/run.h"
#include "vsa/residual_norm.h"

namespace vsa::test {

/// What a call is given beside x.
struct ResidualNormExtras {
  std::string name;
  bool y, gate, scale, shift, out;
  bool shared = false;  ///< gate, scale and shift are the same for all items of the batch
  NormKind norm = NormKind::kLayer;
};
/// Every tensor given, each left out, and nothing but one of them.
std::vector<ResidualNormExtras> residual_norm_extras();

struct ResidualNormCase {
  std::string name;
  Dims dims;
  Order x_order, y_order;  ///< out is in the order of y
};
/// Widths of 32 to 8192 elements in heads of 8 to 128, as many tokens as a work item has and one
/// more or fewer, all memory orders.
std::vector<ResidualNormCase> residual_norm_cases();

/// The tensors of a call: x and out are written, gate, scale and shift are f32 (or f64). Tensors
/// that the extras leave out exist, but are not part of `args`.
struct ResidualNormTensors {
  TestTensor x, y, gate, scale, shift, out;
  ResidualNormArgs args(const ResidualNormExtras& extras);
};
ResidualNormTensors residual_norm_tensors(const ResidualNormCase& shape, DType x_dtype,
                                          DType dtype);

/// Runs the call and leaves its results in x and out.
using RunResidualNorm = std::function<void(ResidualNormTensors&)>;

/// Compares with the reference in fp64, within derived bounds: x with the sum, and out with the
/// norm of x as the call left it.
void expect_residual_norm(const ResidualNormTensors& in, const ResidualNormExtras& extras,
                          const RunResidualNorm& run);

}  // namespace vsa::test
