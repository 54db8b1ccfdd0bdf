// The weights of a umT5 text encoder by name. Host-only.
#include "runtime/text/umt5_weights.h"

#include <fmt/format.h>

#include "runtime/text/tensor_names.h"

namespace vsa::text {
namespace {

// The table of embeddings, and the same under its other name.
constexpr const char* kTable = "shared.weight";
constexpr const char* kAlias = "encoder.embed_tokens.weight";

Umt5LayerWeights find_layer(nn::WeightFinder& finder, const Umt5Config& config, int64_t index) {
  const std::string attention = fmt::format("encoder.block.{}.layer.0.", index);
  const std::string feed_forward = fmt::format("encoder.block.{}.layer.1.", index);
  const auto linear = [&](const std::string& name, nn::LinearDims dims) {
    return finder.linear(name, {.dims = dims, .bias = false});
  };
  const nn::LinearDims in{config.d_model, config.inner()};
  const nn::LinearDims up{config.d_model, config.d_ff};
  return {.norm1 = finder.find(attention + "layer_norm.weight", {config.d_model}),
          .norm2 = finder.find(feed_forward + "layer_norm.weight", {config.d_model}),
          .q = linear(attention + "SelfAttention.q", in),
          .k = linear(attention + "SelfAttention.k", in),
          .v = linear(attention + "SelfAttention.v", in),
          .out = linear(attention + "SelfAttention.o", {config.inner(), config.d_model}),
          .relative_bias = finder.find(attention + "SelfAttention.relative_attention_bias.weight",
                                       {config.num_buckets, config.num_heads}),
          .gelu_in = linear(feed_forward + "DenseReluDense.wi_0", up),
          .linear_in = linear(feed_forward + "DenseReluDense.wi_1", up),
          .down = linear(feed_forward + "DenseReluDense.wo", {config.d_ff, config.d_model})};
}

}  // namespace

bool is_embedding(std::string_view tensor) {
  const std::string name = transformers_name(tensor);
  return name == kTable || name == kAlias;
}

Result<Umt5Weights> find_umt5_weights(const Umt5Config& config, const io::Checkpoint& checkpoint,
                                      nn::LoadSummary& summary) {
  nn::WeightFinder finder(checkpoint, "text encoder", transformers_name);
  Umt5Weights weights{.config = config, .embedding = {}, .layers = {}, .final_norm = {}};
  const std::vector<int64_t> table{config.vocab_size, config.d_model};
  const bool has_alias = finder.has(kAlias);
  if (has_alias) weights.embedding = finder.find(kAlias, table);
  if (!has_alias || finder.has(kTable)) weights.embedding = finder.find(kTable, table);
  // Before anything is sized by num_layers, which a wrong config may put at 2^31.
  if (const int64_t layers = finder.length_of("encoder.block."); layers != config.num_layers) {
    return io_error(fmt::format("[load] text encoder: expected {} layers (num_layers), got {}",
                                config.num_layers, layers));
  }
  for (int64_t n = 0; n < config.num_layers; ++n) {
    weights.layers.push_back(find_layer(finder, config, n));
  }
  weights.final_norm = finder.find("encoder.final_layer_norm.weight", {config.d_model});
  Result<nn::LoadSummary> finished = finder.finish();
  if (!finished.ok()) return finished.status();
  summary = *finished;
  return weights;
}

}  // namespace vsa::text
