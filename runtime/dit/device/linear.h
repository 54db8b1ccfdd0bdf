// Linear layers whose weights are in a device's memory. Host-only.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/device/memory.h"
#include "runtime/nn/weight.h"
#include "vsa/linear.h"

namespace vsa::dit::device {

using vsa::device::Array;
using vsa::device::Memory;
using vsa::device::WeightPlace;

/// The element types of a layer.
struct LinearTypes {
  DType in = DType::kBF16;   ///< of x and the weight
  DType out = DType::kBF16;  ///< of the result and the bias
};

class Linear {
 public:
  Linear() = default;
  /// Layers that read the same x become one, whose columns are those of the first, then those of
  /// the next. Layers without weights are left out.
  static Result<Linear> load(WeightPlace& place, LinearTypes types,
                             std::initializer_list<const nn::LinearWeights*> layers);

  int64_t num_out() const { return out_; }

  /// y = activation(x W^T + b)
  /// @param name  of the layer, for Memory::measure_calls
  /// @param x  [rows, in], contiguous
  /// @param y  [rows, num_out()], contiguous
  Status forward(Memory& memory, const char* name, const void* x, int64_t rows, void* y,
                 Activation activation = Activation::kNone) const;

 private:
  LinearTypes types_;
  int64_t in_ = 0, out_ = 0;
  Array weight_, bias_;
};

}  // namespace vsa::dit::device
