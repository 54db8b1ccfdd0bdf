// The VAE's decoder on a device: its weights. Host-only.
#include "runtime/vae/device/model.h"

#include <algorithm>
#include <span>

#include "runtime/nn/convert.h"
#include "runtime/nn/parallel.h"
#include "runtime/vae/device/steps.h"

namespace vsa::vae::device {
namespace {

Result<Array> f32(Memory& memory, const nn::Weight& weight) {
  if (weight.empty()) return Array();
  const nn::Weight* const one = &weight;
  return memory.weights(DType::kF32, {&one, 1});
}

/// [out, in, taps] becomes [shape.out, taps, in], with zeros for the channels that there are not.
std::vector<float> channels_last(const std::vector<float>& weight, const ConvShape& shape) {
  const int64_t taps = shape.frames * shape.edge * shape.edge;
  const int64_t out = std::ssize(weight) / (taps * shape.in);
  std::vector<float> to(static_cast<size_t>(shape.out * taps * shape.in));
  nn::parallel_rows(out, [&](const nn::RowBlock& block) {
    for (int64_t o = block.begin; o < block.end; ++o) {
      const float* const from = weight.data() + o * taps * shape.in;
      float* const row = to.data() + o * taps * shape.in;
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t i = 0; i < shape.in; ++i) row[tap * shape.in + i] = from[i * taps + tap];
      }
    }
  });
  return to;
}

Status load_conv(Memory& memory, const ConvWeights& from, const ConvShape& shape, DeviceConv& to) {
  if (from.empty()) return {};
  Result<Array> weight =
      memory.rounded(memory.token_dtype(), channels_last(nn::values(from.weight), shape));
  VSA_TRY(weight.status());
  to.weight = std::move(*weight);
  std::vector<float> bias = nn::values(from.bias);
  bias.resize(static_cast<size_t>(shape.out));
  Result<Array> placed = memory.f32(bias);
  VSA_TRY(placed.status());
  to.bias = std::move(*placed);
  return {};
}

Status load_linear(Memory& memory, const nn::LinearWeights& from, DeviceLinear& to) {
  if (from.empty()) return {};
  const nn::Weight* const one = &from.weight;
  Result<Array> weight = memory.weights(memory.token_dtype(), {&one, 1});
  VSA_TRY(weight.status());
  to.weight = std::move(*weight);
  std::vector<float> bias = nn::values(from.bias);
  bias.resize(static_cast<size_t>(from.dims.out));  // zeros without one
  Result<Array> placed = memory.rounded(memory.token_dtype(), bias);
  VSA_TRY(placed.status());
  to.bias = std::move(*placed);
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> DeviceModel::load(const VaeWeights& weights,
                                                 std::shared_ptr<Memory> memory) {
  VSA_TRY(check_network(weights.network));
  std::unique_ptr<DeviceModel> model(new DeviceModel(weights, std::move(memory)));
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    Result<DeviceLayer> layer = model->load_layer(weights.network.layers[i], weights.layers[i]);
    VSA_TRY(layer.status());
    model->layers_.push_back(std::move(*layer));
  }
  return std::unique_ptr<Model>(std::move(model));
}

Result<DeviceLayer> DeviceModel::load_layer(const Layer& layer, const LayerWeights& weights) const {
  DeviceLayer to;
  Result<Array> norm = f32(*memory_, weights.norm);
  VSA_TRY(norm.status());
  to.norm = std::move(*norm);
  norm = f32(*memory_, weights.norm2);
  VSA_TRY(norm.status());
  to.norm2 = std::move(*norm);
  VSA_TRY(load_conv(*memory_, weights.conv, conv_shape(layer), to.conv));
  VSA_TRY(load_conv(*memory_, weights.conv2, conv2_shape(layer), to.conv2));
  VSA_TRY(load_linear(*memory_, weights.q, to.q));
  VSA_TRY(load_linear(*memory_, weights.k, to.k));
  VSA_TRY(load_linear(*memory_, weights.v, to.v));
  VSA_TRY(load_linear(*memory_, weights.linear, to.linear));
  return to;
}

Result<std::unique_ptr<Steps>> DeviceModel::make_steps(std::vector<Part> parts,
                                                       int64_t num_frames) {
  return DeviceSteps::make(*this, std::move(parts), num_frames);
}

}  // namespace vsa::vae::device
