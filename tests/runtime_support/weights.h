// Weights in every type that a file may store them in, for the tests of the runtime's layers.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/weight.h"
#include "vsa/half.h"

namespace vsa::test {

/// Numbers rounded to a type, as bytes.
inline std::vector<std::byte> stored(std::span<const float> values, io::StorageType type) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& number) {
    const auto* const at = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), at, at + sizeof(number));
  };
  for (const float x : values) {
    switch (type) {
      case io::StorageType::kF16:
        append(F16(x).bits);
        break;
      case io::StorageType::kBF16:
        append(BF16(x).bits);
        break;
      case io::StorageType::kF64:
        append(static_cast<double>(x));
        break;
      default:
        append(x);
    }
  }
  return bytes;
}

/// A number as that type holds it.
inline float rounded_to(float x, io::StorageType type) {
  if (type == io::StorageType::kF16) return static_cast<float>(F16(x));
  if (type == io::StorageType::kBF16) return static_cast<float>(BF16(x));
  return x;
}

/// A linear layer's weights with their memory; the weight is stored as `type`, the bias as f32.
class StoredLinear {
 public:
  StoredLinear(nn::LinearDims dims, std::span<const float> weight, std::span<const float> bias,
               io::StorageType type = io::StorageType::kF32)
      : dims_(dims),
        type_(type),
        weight_(stored(weight, type)),
        bias_(stored(bias, io::StorageType::kF32)) {}

  nn::LinearWeights weights() const {
    return {
        .dims = dims_,
        .weight = {.name = "w", .type = type_, .shape = {dims_.out, dims_.in}, .bytes = weight_},
        .bias = {.name = "b", .shape = {dims_.out}, .bytes = bias_}};
  }

 private:
  nn::LinearDims dims_;
  io::StorageType type_;
  std::vector<std::byte> weight_, bias_;
};

}  // namespace vsa::test
