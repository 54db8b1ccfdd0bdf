// Tensors of a model by name, as they are in its files, for any device; nothing here computes.
// Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/storage_type.h"

namespace vsa::nn {

class WeightChange;

/// One tensor. Its values are the stored numbers times `scale`. It does not own its memory, which
/// is the mapped file of a checkpoint, or a tensor made while loading; either must outlive it.
struct Weight {
  std::string name;  ///< the model's, such as "blocks.0.attn1.to_q.weight"
  io::StorageType type = io::StorageType::kF32;  ///< F16, BF16, F32 or F64
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  ///< row-major, at any address
  float scale = 1.0F;
  bool in_file = false;  ///< in a mapped file, whose pages may go once they were read
  /// What is to be done to the values before they are used (weight_change.h); null: nothing.
  std::shared_ptr<const WeightChange> change{};

  /// Whether the model does without this tensor.
  bool empty() const { return bytes.empty(); }
  int64_t num_elements() const { return std::ssize(bytes) / io::size_bytes(type); }
};

struct LinearDims {
  int64_t in = 0;
  int64_t out = 0;
};

/// y = x W^T + b.
struct LinearWeights {
  LinearDims dims;
  Weight weight;  ///< [out, in], or the weight of a convolution with as many elements
  Weight bias;    ///< [out], or empty

  bool empty() const { return weight.empty(); }
};

}  // namespace vsa::nn
