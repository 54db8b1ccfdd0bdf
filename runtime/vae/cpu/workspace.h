// The tensors of one video on the CPU, and what a layer is given to run. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>

#include "runtime/nn/buffer.h"
#include "runtime/nn/linear.h"
#include "runtime/vae/parts.h"

namespace vsa::vae::cpu {

/// Memory that all layers of all parts use in turn; channels are last everywhere.
struct Workspace {
  nn::Buffer x;           ///< [frames, rows, width, channels]
  nn::Buffer spare;       ///< as large as x: a layer makes its output here and swaps the two
  nn::Buffer padded;      ///< the input of a convolution, behind the frames that are kept for it
  nn::WeightSpace space;  ///< f32 weights of the product that runs
  int64_t frames = 0;     ///< of x
};

/// Memory of a part for all frames that its convolutions keep. It is one piece, which is freed when
/// the part is done, because many small pieces would fragment the memory.
class HistorySpace {
 public:
  HistorySpace() = default;
  /// @param floats  by history_floats
  explicit HistorySpace(int64_t floats) : memory_(floats) {}

  /// Throws std::logic_error if more is taken than there is.
  std::span<float> take(int64_t floats) {
    if (taken_ + floats > memory_.size()) throw std::logic_error("vae: kept frames do not fit");
    taken_ += floats;
    return memory_.span().subspan(static_cast<size_t>(taken_ - floats),
                                  static_cast<size_t>(floats));
  }

 private:
  nn::Buffer memory_;
  int64_t taken_ = 0;
};

/// The last frames that a convolution over time read, for the next chunk; the part's rows alone.
struct History {
  HistorySpace* space = nullptr;
  std::span<float> frames;  ///< empty before the first chunk
};

/// What the convolutions of one layer keep in one part.
struct LayerHistory {
  History conv, conv2;
};

/// One run of one layer.
struct Run {
  const LayerShape& shape;
  LayerHistory& history;
  Workspace& space;
  bool first_chunk = false;
};

}  // namespace vsa::vae::cpu
