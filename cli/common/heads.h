// Views of some heads of one item of a batch. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "vsa/lut.h"
#include "vsa/stages.h"
#include "vsa/tensor.h"

namespace vsa::cli {

/// Heads [first, first + count) of batch item `batch`.
struct HeadRange {
  int64_t batch = 0;
  int64_t first = 0;
  int64_t count = 1;
};

/// The same memory of a Tensor or ConstTensor; an empty one stays empty.
template <class T>
T heads_of(const T& tensor, const HeadRange& range) {
  using Byte = std::conditional_t<std::is_same_v<T, Tensor>, std::byte, const std::byte>;
  T part = tensor;
  if (part.empty()) return part;
  const int64_t offset = range.batch * tensor.stride[0] + range.first * tensor.stride[1];
  part.data = static_cast<Byte*>(tensor.data) + offset * size_bytes(tensor.dtype);
  part.shape[0] = 1;
  part.shape[1] = range.count;
  return part;
}

/// The rows of a Lut or ConstLut.
template <class T>
T lut_heads_of(const T& lut, const HeadRange& range) {
  const int64_t row = (range.batch * lut.dims.num_heads + range.first) * lut.dims.num_q_tiles;
  T part = lut;
  part.index += row * lut.dims.pitch;
  part.count += row;
  part.dims.batch = 1;
  part.dims.num_heads = range.count;
  return part;
}

inline Gate heads_of(const Gate& gate, const HeadRange& range) {
  return gate.is_tensor() ? Gate::tensor(heads_of(gate.as_tensor(), range)) : gate;
}

}  // namespace vsa::cli
