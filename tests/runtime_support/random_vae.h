// Random weights for a VAE of any size, without a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/vae/weights.h"

namespace vsa::test {

/// Convolutions all read one array of random numbers, each with a scale that keeps outputs about as
/// large as inputs; so a VAE of true size takes no more memory here than its largest weight. Must
/// outlive the weights it gives.
class RandomVae {
 public:
  explicit RandomVae(const vae::VaeConfig& config, uint64_t seed = 1);

  /// The decoder or the encoder.
  vae::VaeWeights weights(vae::Half half) const;

 private:
  nn::Weight array(std::vector<int64_t> shape, float scale) const;
  nn::Weight gamma(int64_t channels) const;
  vae::ConvWeights conv(int64_t out, int64_t in, std::vector<int64_t> kernel) const;
  nn::LinearWeights linear(int64_t in, int64_t out) const;
  vae::LayerWeights layer(const vae::Layer& layer) const;

  vae::VaeConfig config_;
  std::vector<float> numbers_;  // as many as the largest weight has
  std::vector<float> gammas_;
};

}  // namespace vsa::test
