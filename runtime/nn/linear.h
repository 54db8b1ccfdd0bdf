// y = act(x W^T + b) in f32, on oneDNN. Host-only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vsa::nn {

/// "2.6.3": the library that runs.
std::string onednn_version();

/// What is applied to the output while it is still in registers.
enum class Activation { kNone, kGeluTanh, kSilu };

struct LinearDims {
  int64_t in = 0;
  int64_t out = 0;
};

/// A linear layer. The weight is copied once, into the layout oneDNN multiplies fastest from; the
/// caller's copy is not needed afterwards. Immutable; shared by copies; thread-safe.
///
/// Every row is computed on one thread in an order that does not depend on the number of threads,
/// so results are bitwise reproducible.
class Linear {
 public:
  Linear() = default;
  /// @param weight  [out, in], row-major
  /// @param bias    [out], or empty
  /// Throws std::bad_alloc or dnnl::error.
  Linear(LinearDims dims, std::span<const float> weight, std::span<const float> bias,
         Activation activation = Activation::kNone);

  LinearDims dims() const;

  /// All rows, several blocks of rows at a time.
  /// @param x  [rows, in], contiguous
  /// @param y  [rows, out], contiguous, not overlapping x
  /// Cost: 2 * rows * in * out FLOP.
  void forward(const float* x, int64_t rows, float* y) const;

  /// The same on the calling thread, for use inside parallel_rows.
  void forward_block(const float* x, int64_t rows, float* y) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vsa::nn
