// What is done to a tensor of a file while it is loaded, such as a LoRA. Host-only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/nn/weight.h"

namespace vsa::nn {

/// A change of one tensor. Immutable and thread-safe.
class WeightChange {
 public:
  virtual ~WeightChange() = default;
  /// @param values  all elements of the tensor, row-major; in and out
  virtual void apply(std::span<float> values) const = 0;
};

/// A weight as it is computed with, and its memory where that is not the file's.
struct ChangedWeight {
  Weight weight;  ///< without a change
  std::vector<std::byte> memory;
};

/// Makes the change of a weight: in f32, after which every element is rounded to the type of the
/// weight (an F64 becomes F32). Without a change the weight comes back as it is.
/// Throws std::bad_alloc, or vsa::Error (Unsupported) if an element does not fit the type.
/// Cost: for a large weight twice its elements in f32 while it runs.
ChangedWeight changed(const Weight& weight);

}  // namespace vsa::nn
