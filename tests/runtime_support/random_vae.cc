#include "tests/runtime_support/random_vae.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <span>

namespace vsa::test {
namespace {

int64_t product(const std::vector<int64_t>& factors) {
  return std::accumulate(factors.begin(), factors.end(), int64_t{1}, std::multiplies<>());
}

std::vector<float> uniform(int64_t size, float mean, float radius, uint64_t seed) {
  std::minstd_rand generator(static_cast<uint32_t>(seed));
  std::vector<float> values(static_cast<size_t>(size));
  constexpr float kMost = 2147483647.0F;
  for (float& v : values) {
    v = mean + radius * (2.0F * static_cast<float>(generator()) / kMost - 1.0F);
  }
  return values;
}

}  // namespace

RandomVae::RandomVae(const vae::VaeConfig& config, uint64_t seed) : config_(config) {
  const int64_t widest = config.base_dim * *std::ranges::max_element(config.dim_mult);
  const int64_t channels = std::max({widest, 2 * config.z_dim, int64_t{3}});
  // The largest: 3x3x3 between the widest; with few channels, a product with the latents.
  numbers_ = uniform(27 * channels * channels, 0.0F, 1.7F, seed);  // a variance of about 1
  gammas_ = uniform(channels, 1.0F, 0.3F, seed + 1);
}

nn::Weight RandomVae::array(std::vector<int64_t> shape, float scale) const {
  const auto size = static_cast<size_t>(product(shape));
  return {.name = "random",
          .type = io::StorageType::kF32,
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(numbers_).first(size)),
          .scale = scale};
}

nn::Weight RandomVae::gamma(int64_t channels) const {
  return {.name = "gamma",
          .shape = {channels},
          .bytes = std::as_bytes(std::span(gammas_).first(static_cast<size_t>(channels)))};
}

vae::ConvWeights RandomVae::conv(int64_t out, int64_t in, std::vector<int64_t> kernel) const {
  const float scale = 1.0F / std::sqrt(static_cast<float>(in * product(kernel)));
  kernel.insert(kernel.begin(), {out, in});
  return {.weight = array(std::move(kernel), scale), .bias = array({out}, 0.1F)};
}

nn::LinearWeights RandomVae::linear(int64_t in, int64_t out) const {
  return {.dims = {.in = in, .out = out},
          .weight = array({out, in}, 1.0F / std::sqrt(static_cast<float>(in))),
          .bias = array({out}, 0.1F)};
}

vae::LayerWeights RandomVae::layer(const vae::Layer& layer) const {
  using vae::LayerKind;
  const int64_t in = layer.in;
  const int64_t out = layer.out;
  vae::LayerWeights weights;
  switch (layer.kind) {
    case LayerKind::kPointwise:
      weights.linear = linear(in, out);
      break;
    case LayerKind::kHead:
      weights.norm = gamma(in);
      weights.conv = conv(out, in, {3, 3, 3});
      weights.conv.weight.scale *= 0.3F;  // few pixels are clamped
      break;
    case LayerKind::kConv:
      weights.conv = conv(out, in, {3, 3, 3});
      break;
    case LayerKind::kResidual:
      weights.norm = gamma(in);
      weights.norm2 = gamma(out);
      weights.conv = conv(out, in, {3, 3, 3});
      weights.conv2 = conv(out, out, {3, 3, 3});
      if (in != out) weights.linear = linear(in, out);
      break;
    case LayerKind::kAttention:
      weights.norm = gamma(in);
      weights.q = weights.k = weights.v = weights.linear = linear(in, in);
      break;
    case LayerKind::kUpsample:
    case LayerKind::kDownsample:
      weights.conv = conv(out, in, {3, 3});
      if (layer.temporal) {
        weights.conv2 = conv(layer.kind == LayerKind::kUpsample ? 2 * in : in, in, {3, 1, 1});
      }
      break;
  }
  return weights;
}

vae::VaeWeights RandomVae::weights(vae::Half half) const {
  vae::VaeWeights all{.config = config_,
                      .network = half == vae::Half::kDecoder ? vae::decoder_network(config_)
                                                             : vae::encoder_network(config_),
                      .layers = {}};
  for (const vae::Layer& one : all.network.layers) all.layers.push_back(layer(one));
  return all;
}

}  // namespace vsa::test
