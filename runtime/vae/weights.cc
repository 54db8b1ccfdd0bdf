// The weights of Wan2.1's VAE by name. Host-only.
#include "runtime/vae/weights.h"

#include "runtime/vae/tensor_names.h"

namespace vsa::vae {
namespace {

/// The parts of a product with a convolution's weight: rows [index * rows, (index + 1) * rows).
nn::LinearWeights rows_of(const nn::LinearWeights& whole, int64_t index, int64_t rows) {
  const auto part = [&](const nn::Weight& weight) {
    nn::Weight some = weight;
    if (weight.empty()) return some;  // missing: the finder tells
    const size_t bytes =
        weight.bytes.size() * static_cast<size_t>(rows) / static_cast<size_t>(whole.dims.out);
    some.shape.front() = rows;
    some.bytes = weight.bytes.subspan(static_cast<size_t>(index) * bytes, bytes);
    return some;
  };
  return {.dims = {.in = whole.dims.in, .out = rows},
          .weight = part(whole.weight),
          .bias = part(whole.bias)};
}

/// Takes the tensors of layers out of a checkpoint.
class LayerFinder {
 public:
  explicit LayerFinder(nn::WeightFinder& finder) : finder_(finder) {}

  LayerWeights find(const Layer& layer) {
    LayerWeights weights;
    const std::string prefix = layer.name + ".";
    const std::vector<int64_t> cube{layer.out, layer.in, 3, 3, 3};
    switch (layer.kind) {
      case LayerKind::kPointwise:
        weights.linear = linear(layer.name, {layer.in, layer.out}, {1, 1, 1});
        break;
      case LayerKind::kConv:
        weights.conv = conv(layer.name, cube);
        break;
      case LayerKind::kHead:
        weights.norm = finder_.find(prefix + "norm_out.gamma", {layer.in, 1, 1, 1});
        weights.conv = conv(prefix + "conv_out", cube);
        break;
      case LayerKind::kResidual:
        weights.norm = finder_.find(prefix + "norm1.gamma", {layer.in, 1, 1, 1});
        weights.conv = conv(prefix + "conv1", cube);
        weights.norm2 = finder_.find(prefix + "norm2.gamma", {layer.out, 1, 1, 1});
        weights.conv2 = conv(prefix + "conv2", {layer.out, layer.out, 3, 3, 3});
        if (layer.in != layer.out) {
          weights.linear = linear(prefix + "conv_shortcut", {layer.in, layer.out}, {1, 1, 1});
        }
        break;
      case LayerKind::kAttention:
        find_attention(layer, weights);
        break;
      case LayerKind::kUpsample:
      case LayerKind::kDownsample:
        find_resample(layer, weights);
        break;
    }
    return weights;
  }

 private:
  ConvWeights conv(const std::string& name, const std::vector<int64_t>& shape) {
    return {.weight = finder_.find(name + ".weight", shape),
            .bias = finder_.find(name + ".bias", {shape.front()})};
  }

  nn::LinearWeights linear(const std::string& name, nn::LinearDims dims,
                           const std::vector<int64_t>& kernel) {
    std::vector<int64_t> shape{dims.out, dims.in};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    return finder_.linear(name, {.dims = dims, .weight_shape = shape});
  }

  void find_attention(const Layer& layer, LayerWeights& weights) {
    const int64_t dim = layer.in;
    weights.norm = finder_.find(layer.name + ".norm.gamma", {dim, 1, 1});
    const nn::LinearWeights qkv = linear(layer.name + ".to_qkv", {dim, 3 * dim}, {1, 1});
    weights.q = rows_of(qkv, 0, dim);
    weights.k = rows_of(qkv, 1, dim);
    weights.v = rows_of(qkv, 2, dim);
    weights.linear = linear(layer.name + ".proj", {dim, dim}, {1, 1});
  }

  void find_resample(const Layer& layer, LayerWeights& weights) {
    weights.conv = conv(layer.name + ".resample.1", {layer.out, layer.in, 3, 3});
    if (!layer.temporal) return;
    // Going up, the two halves of the channels are the two frames.
    const int64_t out = layer.kind == LayerKind::kUpsample ? 2 * layer.in : layer.in;
    weights.conv2 = conv(layer.name + ".time_conv", {out, layer.in, 3, 1, 1});
  }

  nn::WeightFinder& finder_;
};

/// Whether a tensor belongs to that half, by diffusers' name.
bool belongs_to(std::string_view name, Half half) {
  return half == Half::kDecoder
             ? name.starts_with("decoder.") || name.starts_with("post_quant_conv.")
             : name.starts_with("encoder.") || name.starts_with("quant_conv.");
}

}  // namespace

Result<VaeWeights> find_weights(const VaeConfig& config, Half half,
                                const io::Checkpoint& checkpoint, LoadReport& report) {
  std::vector<std::string> names;
  for (const auto& [name, view] : checkpoint.tensors()) names.push_back(name);
  const Result<Naming> naming = detect_naming(names);
  if (!naming.ok()) return naming.status();
  const auto rename = [&](std::string_view name) {
    return diffusers_name(name, *naming, config.num_res_blocks);
  };
  nn::WeightFinder finder(checkpoint, "vae", rename);
  VaeWeights weights{
      .config = config,
      .network = half == Half::kDecoder ? decoder_network(config) : encoder_network(config),
      .layers = {}};
  for (const Layer& layer : weights.network.layers) {
    weights.layers.push_back(LayerFinder(finder).find(layer));
  }
  Result<nn::LoadSummary> summary = finder.finish();
  if (!summary.ok()) return summary.status();
  const Half other = half == Half::kDecoder ? Half::kEncoder : Half::kDecoder;
  std::erase_if(summary->unused,
                [&](const std::string& name) { return belongs_to(rename(name), other); });
  report = {.summary = *summary, .naming = std::string(name(*naming))};
  return weights;
}

}  // namespace vsa::vae
