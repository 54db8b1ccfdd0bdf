// The two ways checkpoints name a umT5 encoder's tensors.
#include "runtime/text/tensor_names.h"

#include <fmt/format.h>

#include <array>

namespace vsa::text {
namespace {

struct Rule {
  std::string_view from;
  std::string_view to;
};

/// Inside a layer. ffn.gate is the branch with the GELU.
constexpr std::array kLayer{
    Rule{"norm1.weight", "layer.0.layer_norm.weight"},
    Rule{"attn.q.weight", "layer.0.SelfAttention.q.weight"},
    Rule{"attn.k.weight", "layer.0.SelfAttention.k.weight"},
    Rule{"attn.v.weight", "layer.0.SelfAttention.v.weight"},
    Rule{"attn.o.weight", "layer.0.SelfAttention.o.weight"},
    Rule{"pos_embedding.embedding.weight", "layer.0.SelfAttention.relative_attention_bias.weight"},
    Rule{"norm2.weight", "layer.1.layer_norm.weight"},
    Rule{"ffn.gate.0.weight", "layer.1.DenseReluDense.wi_0.weight"},
    Rule{"ffn.fc1.weight", "layer.1.DenseReluDense.wi_1.weight"},
    Rule{"ffn.fc2.weight", "layer.1.DenseReluDense.wo.weight"},
};

}  // namespace

std::string transformers_name(std::string_view name) {
  for (const std::string_view prefix : kPartPrefixes) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name == "token_embedding.weight") return "shared.weight";
  if (name == "norm.weight") return "encoder.final_layer_norm.weight";
  constexpr std::string_view kBlocks = "blocks.";
  const size_t dot = name.find('.', kBlocks.size());
  if (!name.starts_with(kBlocks) || dot == name.npos) return std::string(name);
  const std::string_view layer = name.substr(kBlocks.size(), dot - kBlocks.size());
  for (const Rule& rule : kLayer) {
    if (name.substr(dot + 1) == rule.from)
      return fmt::format("encoder.block.{}.{}", layer, rule.to);
  }
  return std::string(name);
}

}  // namespace vsa::text
