#include "tests/runtime_support/rename.h"

#include <utility>
#include <vector>

namespace vsa::test {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Written out apart from the runtime's tables, so that a slip there shows here. The first `from`
/// that occurs is replaced; order matters.
TinyTensors rename(const TinyTensors& tensors, const Pairs& pairs) {
  TinyTensors renamed;
  for (const auto& [name, tensor] : tensors) {
    std::string to = name;
    for (const auto& [old_part, new_part] : pairs) {
      if (const size_t at = to.find(old_part); at != std::string::npos) {
        to.replace(at, old_part.size(), new_part);
        break;
      }
    }
    renamed[to] = tensor;
  }
  return renamed;
}

}  // namespace

TinyTensors with_wan_names(const TinyTensors& diffusers) {
  TinyTensors tensors =
      rename(diffusers, {{"condition_embedder.text_embedder.linear_1", "text_embedding.0"},
                         {"condition_embedder.text_embedder.linear_2", "text_embedding.2"},
                         {"condition_embedder.time_embedder.linear_1", "time_embedding.0"},
                         {"condition_embedder.time_embedder.linear_2", "time_embedding.2"},
                         {"condition_embedder.time_proj", "time_projection.1"},
                         {".scale_shift_table", ".modulation"},
                         {"scale_shift_table", "head.modulation"},
                         {"proj_out", "head.head"},
                         {"attn1.to_q", "self_attn.q"},
                         {"attn1.to_k", "self_attn.k"},
                         {"attn1.to_v", "self_attn.v"},
                         {"attn1.to_out.0", "self_attn.o"},
                         {"attn1.norm", "self_attn.norm"},
                         {"attn2.to_q", "cross_attn.q"},
                         {"attn2.to_k", "cross_attn.k"},
                         {"attn2.to_v", "cross_attn.v"},
                         {"attn2.to_out.0", "cross_attn.o"},
                         {"attn2.norm", "cross_attn.norm"},
                         {".norm2.", ".norm3."},
                         {"ffn.net.0.proj", "ffn.0"},
                         {"ffn.net.2", "ffn.2"}});
  return tensors;
}

TinyTensors with_wan_vae_names(const TinyTensors& diffusers, int64_t num_res_blocks) {
  Pairs pairs = {{"post_quant_conv.", "conv2."},
                 {"decoder.conv_in.", "decoder.conv1."},
                 {"decoder.norm_out.", "decoder.head.0."},
                 {"decoder.conv_out.", "decoder.head.2."},
                 {"decoder.mid_block.attentions.0.", "decoder.middle.1."},
                 {"decoder.mid_block.resnets.0.", "decoder.middle.0.r."},
                 {"decoder.mid_block.resnets.1.", "decoder.middle.2.r."}};
  for (int64_t level = 0; level < 4; ++level) {
    const std::string block = "decoder.up_blocks." + std::to_string(level) + ".";
    const auto upsamples = [&](int64_t i) {
      return "decoder.upsamples." + std::to_string((num_res_blocks + 2) * level + i) + ".";
    };
    for (int64_t i = 0; i <= num_res_blocks; ++i) {
      pairs.emplace_back(block + "resnets." + std::to_string(i) + ".", upsamples(i) + "r.");
    }
    pairs.emplace_back(block + "upsamplers.0.", upsamples(num_res_blocks + 1));
  }
  TinyTensors decoder;
  for (const auto& [name, tensor] : diffusers) {
    if (name.starts_with("decoder.") || name.starts_with("post_quant_conv."))
      decoder[name] = tensor;
  }
  return rename(rename(decoder, pairs), {{".r.norm1.", ".residual.0."},
                                         {".r.conv1.", ".residual.2."},
                                         {".r.norm2.", ".residual.3."},
                                         {".r.conv2.", ".residual.6."},
                                         {".r.conv_shortcut.", ".shortcut."}});
}

TinyTensors with_wan_t5_names(const TinyTensors& transformers) {
  return rename(rename(transformers, {{"shared.", "token_embedding."},
                                      {"encoder.final_layer_norm.", "norm."},
                                      {"encoder.block.", "blocks."}}),
                {{"layer.0.layer_norm", "norm1"},
                 {"layer.1.layer_norm", "norm2"},
                 {"layer.0.SelfAttention.relative_attention_bias", "pos_embedding.embedding"},
                 {"layer.0.SelfAttention.", "attn."},
                 {"layer.1.DenseReluDense.wi_0", "ffn.gate.0"},
                 {"layer.1.DenseReluDense.wi_1", "ffn.fc1"},
                 {"layer.1.DenseReluDense.wo", "ffn.fc2"}});
}

TinyTensors with_fastvideo_names(const TinyTensors& diffusers) {
  return rename(diffusers,
                {{"patch_embedding.", "patch_embedding.proj."},
                 {"text_embedder.linear_1", "text_embedder.fc_in"},
                 {"text_embedder.linear_2", "text_embedder.fc_out"},
                 {"time_embedder.linear_1", "time_embedder.mlp.fc_in"},
                 {"time_embedder.linear_2", "time_embedder.mlp.fc_out"},
                 {"condition_embedder.time_proj", "condition_embedder.time_modulation.linear"},
                 {"attn1.to_out.0", "to_out"},
                 {"attn2.to_out.0", "attn2.to_out"},
                 {"attn1.", ""},
                 {".norm2.", ".self_attn_residual_norm.norm."},
                 {"ffn.net.0.proj", "ffn.fc_in"},
                 {"ffn.net.2", "ffn.fc_out"}});
}

}  // namespace vsa::test
