// y = act(x W^T + b) in f32, on oneDNN, with the weight kept in the type of its file. Host-only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/nn/buffer.h"
#include "runtime/nn/weight.h"

namespace vsa::nn {

/// "2.6.3": the library that runs.
std::string onednn_version();

/// What is applied to the output while it is still in registers.
enum class Activation { kNone, kGeluTanh, kSilu };

/// Where a layer's weight is kept between products.
enum class Keep {
  /// In a copy of the same type, in the order that oneDNN multiplies fastest from. The pages of the
  /// file are released. For a weight that every step multiplies with. F64 becomes f32.
  kPacked,
  /// In the mapped file. For a weight that is used once or twice.
  kMapped,
};

/// Memory for f32 copies of the weights that one step multiplies with. The next step uses the same
/// memory, which grows to what the largest step takes.
class WeightSpace {
 public:
  /// Makes all of the memory free for the next step.
  void clear();
  /// n floats on a cache line that stay where they are until clear(). Throws std::bad_alloc.
  float* take(int64_t n);

 private:
  Buffer memory_;
  std::vector<Buffer> more_;  // what did not fit; one memory with the rest after clear()
  int64_t taken_ = 0;         // floats, of both
};

/// A linear layer whose weight is ready to be multiplied with; valid until the WeightSpace it was
/// made in is cleared. Thread-safe.
///
/// Every row is computed on one thread in an order that does not depend on the number of threads,
/// so results are bitwise reproducible.
class ReadyLinear {
 public:
  /// All rows, several blocks of rows at a time.
  /// @param x  [rows, in], contiguous
  /// @param y  [rows, out], contiguous, not overlapping x
  /// Cost: 2 * rows * in * out FLOP.
  void forward(const float* x, int64_t rows, float* y) const;

  /// The same on the calling thread, for use inside parallel_rows.
  void forward_block(const float* x, int64_t rows, float* y) const;

 private:
  friend class Linear;
  struct State;
  const State* state_ = nullptr;   // the layer's
  const float* weight_ = nullptr;  // in the layer's order
};

/// A linear layer. Immutable; shared by copies. ready() is for one thread at a time.
class Linear {
 public:
  Linear() = default;
  /// @param weights  an empty one makes a layer that must not be used. Keep::kMapped: must outlive
  ///                 the layer
  /// Throws std::bad_alloc or dnnl::error.
  explicit Linear(const LinearWeights& weights, Activation activation = Activation::kNone,
                  Keep keep = Keep::kPacked);

  LinearDims dims() const;

  /// Makes the weight ready: one that is kept as f32 is as it is, any other becomes f32 in `space`,
  /// with all threads. Cost: one pass over the weight, which is little beside a product with the
  /// rows of a video.
  ReadyLinear ready(WeightSpace& space) const;

 private:
  std::shared_ptr<ReadyLinear::State> state_;
};

}  // namespace vsa::nn
