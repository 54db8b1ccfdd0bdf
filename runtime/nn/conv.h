// Convolutions over frames, rows and columns in f32, on oneDNN, channels last. Host-only.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/nn/weight.h"

namespace vsa::nn {

struct ConvStride {
  int64_t frames = 1;
  int64_t edges = 1;  ///< of rows and columns
};

/// An input and the zeros around it. A convolution makes
/// (frames + front - kernel) / stride + 1 frames, and rows and columns likewise. Every output must
/// read some of the input: where an output reads zeros alone, oneDNN 2.6.3 overwrites the sum that
/// it should add to.
struct ConvShape {
  int64_t frames = 0, height = 0, width = 0;
  int64_t front = 0;  ///< frames of zeros ahead; there are none behind
  int64_t top = 0, bottom = 0, left = 0, right = 0;

  auto operator<=>(const ConvShape&) const = default;
};

/// Whether the output replaces what is in its place, or is added to it.
enum class Into { kReplace, kAdd };

/// y = x * W + b. Immutable; shared by copies. forward() is for one thread at a time, and spreads
/// its work over all threads.
///
/// Results do not depend on the number of threads. Every output is one sum, in an order that may
/// depend on the shape and on the instruction set.
class Conv {
 public:
  Conv() = default;
  /// @param weight  [out, in, frames, rows, columns] or [out, in, rows, columns]; an empty one
  /// makes
  ///                a layer that must not be used. Both must outlive the layer: a weight is put in
  ///                oneDNN's order when it is first used, and again when a shape wants another; its
  ///                pages of the file are released.
  /// @param bias    [out]
  Conv(const Weight& weight, const Weight& bias, ConvStride stride = {});

  bool empty() const { return state_ == nullptr; }

  /// @param x  [frames, height, width, in], contiguous
  /// @param y  [frames out, rows out, columns out, out], contiguous, not overlapping x
  /// Cost: 2 * in * out * kernel FLOP per output pixel. Throws std::bad_alloc or dnnl::error.
  void forward(const ConvShape& shape, const float* x, float* y, Into into = Into::kReplace) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vsa::nn
