// The configuration of a umT5 encoder whose file has none, from the shapes of its tensors.
#include "runtime/text/inferred_config.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/text/tensor_names.h"

namespace vsa::text {
namespace {

constexpr const char* kTable = "shared.weight";
constexpr const char* kAlias = "encoder.embed_tokens.weight";

std::string layer_norm(int64_t layer) {
  return fmt::format("encoder.block.{}.layer.0.layer_norm.weight", layer);
}

}  // namespace

Result<Umt5Config> infer_umt5_config(const io::Checkpoint& checkpoint) {
  std::map<std::string, const io::TensorView*> by_name;
  for (const auto& [file_name, view] : checkpoint.tensors()) {
    by_name.emplace(transformers_name(file_name), &view);
  }
  Status status;
  const auto matrix = [&](const std::string& name) -> std::vector<int64_t> {
    const auto found = by_name.find(name);
    if (found != by_name.end() && found->second->shape.size() == 2 &&
        !found->second->bytes.empty()) {
      return found->second->shape;
    }
    if (status.ok()) {
      status = io_error(
          fmt::format("[load] text encoder: {}: expected a matrix, got {}: not a umT5 encoder?",
                      name, found == by_name.end() ? "none" : io::to_string(*found->second)));
    }
    return {1, 1};
  };
  const auto table = matrix(by_name.contains(kTable) ? kTable : kAlias);
  const auto bias = matrix("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  const auto query = matrix("encoder.block.0.layer.0.SelfAttention.q.weight");
  const auto up = matrix("encoder.block.0.layer.1.DenseReluDense.wi_0.weight");
  VSA_TRY(status);
  Umt5Config config{.vocab_size = table[0],
                    .d_model = table[1],
                    .d_kv = query[0] / bias[1],
                    .num_heads = bias[1],
                    .d_ff = up[0],
                    .num_buckets = bias[0]};
  while (by_name.contains(layer_norm(config.num_layers))) ++config.num_layers;
  if (config.num_buckets < 4 || config.max_distance <= config.num_buckets / 4 ||
      query[0] % bias[1] != 0) {
    return io_error(fmt::format(
        "[load] text encoder: expected heads and buckets of a umT5 encoder, got {} heads of {} "
        "together and {} buckets",
        bias[1], query[0], bias[0]));
  }
  return config;
}

}  // namespace vsa::text
