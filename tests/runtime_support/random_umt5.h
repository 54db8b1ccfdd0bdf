// A umT5 text encoder of any size with random weights, in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/text/umt5_weights.h"
#include "vsa/tensor.h"

namespace vsa::test {

/// Weights of such sizes that scores and activations are of the order of 1, as those of T5. There
/// is no table of embeddings: steps begin behind it.
class RandomUmt5 {
 public:
  /// @param stored  f32 or bf16, of all weights
  RandomUmt5(const text::Umt5Config& config, DType stored, uint64_t seed);
  RandomUmt5(const RandomUmt5&) = delete;
  RandomUmt5& operator=(const RandomUmt5&) = delete;

  text::Umt5Weights weights;

 private:
  nn::Weight add(std::vector<int64_t> shape, double sigma, double mean = 0.0);
  nn::LinearWeights linear(int64_t in, int64_t out, double sigma);

  DType stored_;
  uint64_t seed_;
  std::deque<std::vector<std::byte>> memory_;  // of the weights
};

}  // namespace vsa::test
