// Memory for the arguments of a call, compared as a whole before and after it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory_resource>
#include <vector>

#include "vsa/lut.h"
#include "vsa/tensor.h"

namespace vsa::test {

/// Hands out tensors and tables in memory of the default resource (std::pmr). f32, bf16, f16 and
/// f64 memory starts as small finite numbers.
class Arena {
 public:
  /// Contiguous in the order [B, S, H, D].
  Tensor tensor(DType dtype, std::array<int64_t, 4> shape);
  /// Every row keeps tile 0; the tail is -1.
  Lut lut(LutDims dims);

  /// All memory handed out so far.
  std::vector<std::byte> bytes() const;

 private:
  std::byte* allocate(int64_t size);
  std::deque<std::pmr::vector<std::byte>> blocks_;  // a deque never moves its elements
};

}  // namespace vsa::test
