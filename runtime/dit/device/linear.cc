// Linear layers whose weights are in a device's memory. Host-only.
#include "runtime/dit/device/linear.h"

#include <algorithm>
#include <vector>

#include "runtime/nn/convert.h"

namespace vsa::dit::device {
namespace {

ConstTensor matrix(const void* data, DType dtype, int64_t rows, int64_t columns) {
  return ConstTensor::bshd(data, dtype, {.seq_len = rows, .head_dim = columns});
}

/// The biases one behind the other; zeros for a layer without one.
std::vector<float> biases(std::span<const nn::LinearWeights* const> layers) {
  std::vector<float> all;
  for (const nn::LinearWeights* layer : layers) {
    const std::vector<float> bias = nn::values(layer->bias);
    all.insert(all.end(), bias.begin(), bias.end());
    if (bias.empty()) all.resize(all.size() + static_cast<size_t>(layer->dims.out));
  }
  return all;
}

}  // namespace

Result<Linear> Linear::load(WeightPlace& place, LinearTypes types,
                            std::initializer_list<const nn::LinearWeights*> layers) {
  std::vector<const nn::LinearWeights*> present;
  std::ranges::copy_if(layers, std::back_inserter(present),
                       [](const nn::LinearWeights* layer) { return !layer->empty(); });
  Linear linear;
  linear.types_ = types;
  std::vector<const nn::Weight*> weights;
  for (const nn::LinearWeights* layer : present) {
    linear.in_ = layer->dims.in;
    linear.out_ += layer->dims.out;
    weights.push_back(&layer->weight);
  }
  Result<Array> weight = place.weights(types.in, weights);
  VSA_TRY(weight.status());
  linear.weight_ = std::move(*weight);
  Result<Array> placed = place.rounded(types.out, biases(present));
  VSA_TRY(placed.status());
  linear.bias_ = std::move(*placed);
  return linear;
}

Status Linear::forward(Memory& memory, const char* name, const void* x, int64_t rows, void* y,
                       Activation activation) const {
  const auto product =
      static_cast<double>(rows) * static_cast<double>(in_) * static_cast<double>(out_);
  const auto bytes = static_cast<double>((rows * in_ + in_ * out_) * size_bytes(types_.in) +
                                         rows * out_ * size_bytes(types_.out));
  return memory.call(
      {.kind = name, .flops = 2.0 * product, .bytes = bytes}, [&](const Context& context) {
        return linear(context,
                      {.x = matrix(x, types_.in, rows, in_),
                       .weight = matrix(weight_.data(), types_.in, out_, in_),
                       .bias = matrix(bias_.data(), types_.out, 1, out_),
                       .activation = activation,
                       .out = Tensor::bshd(y, types_.out, {.seq_len = rows, .head_dim = out_})});
      });
}

}  // namespace vsa::dit::device
