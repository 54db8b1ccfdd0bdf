// The configuration of a Wan transformer. Host-only.
#include "runtime/dit/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "runtime/json_fields.h"

namespace vsa::dit {
namespace {

/// What an image-to-video checkpoint adds; this runtime generates from text alone.
constexpr std::array<const char*, 3> kImageFields{"image_dim", "added_kv_proj_dim",
                                                  "pos_embed_seq_len"};

void refuse_image_to_video(runtime::JsonFields& fields, const WanConfig& config,
                           std::string_view file) {
  for (const char* field : kImageFields) {
    if (fields.present(field)) {
      fields.fail(unsupported(fmt::format(
          "[config] {}: {}: expected null, got a value: image-to-video models are not supported",
          file, field)));
    }
  }
  if (config.in_channels != config.out_channels) {
    fields.fail(unsupported(
        fmt::format("[config] {}: in_channels: expected out_channels ({}), got {}: image-to-video "
                    "models are not supported",
                    file, config.out_channels, config.in_channels)));
  }
}

/// Whether q and k are normalised: not if the field is null, and by Wan's kind of norm otherwise.
/// Any other kind is refused.
bool parse_qk_norm(runtime::JsonFields& fields, const nlohmann::json& json, std::string_view file) {
  constexpr const char* kKind = "rms_norm_across_heads";
  if (json.contains("qk_norm") && json.at("qk_norm").is_null()) {
    fields.present("qk_norm");
    return false;
  }
  if (json.contains("qk_norm") && json.at("qk_norm").is_boolean()) {  // Wan's own spelling
    return fields.boolean("qk_norm", true);
  }
  const std::string kind = fields.text("qk_norm", kKind);
  if (kind != kKind) {
    fields.fail(
        unsupported(fmt::format("[config] {}: qk_norm: expected {}, got {}", file, kKind, kind)));
  }
  return true;
}

/// Wan's own config.json says `dim` and `num_heads`, and leaves out what all its models share.
bool is_original(const nlohmann::json& json) {
  return json.is_object() && json.contains("dim") && !json.contains("attention_head_dim");
}

/// Of Wan's own models, only one kind generates from text alone.
void refuse_other_types(runtime::JsonFields& fields, std::string_view file) {
  const std::string type = fields.text("model_type", "t2v");
  if (type == "t2v") return;
  const char* const models = type == "ti2v" || type == "s2v"    ? "Wan2.2's models"
                             : type == "i2v" || type == "flf2v" ? "image-to-video models"
                                                                : "models of other kinds";
  fields.fail(unsupported(
      fmt::format("[config] {}: model_type: expected t2v (Wan2.1's text to video), got {}: {} are "
                  "not supported",
                  file, type, models)));
}

void read_original(runtime::JsonFields& fields, WanConfig& config, std::string_view file) {
  refuse_other_types(fields, file);
  const int64_t width = fields.required_integer("dim");
  config.num_heads = fields.required_integer("num_heads");
  config.head_dim = width / config.num_heads;
  if (width % config.num_heads != 0) {
    fields.fail(
        io_error(fmt::format("[config] {}: dim: expected a multiple of num_heads {}, got {}", file,
                             config.num_heads, width)));
  }
  config.in_channels = fields.integer("in_dim", config.in_channels);
  config.out_channels = fields.integer("out_dim", config.in_channels);
  fields.present("text_len");  // the rows of the embedding, which the text encoder pads to
}

void read_diffusers(runtime::JsonFields& fields, WanConfig& config) {
  config.num_heads = fields.integer("num_attention_heads", config.num_heads);
  config.head_dim = fields.integer("attention_head_dim", config.head_dim);
  config.in_channels = fields.integer("in_channels", config.in_channels);
  config.out_channels = fields.integer("out_channels", config.in_channels);
}

}  // namespace

Status check_wan_config(const WanConfig& config, std::string_view file) {
  constexpr int64_t kWidest = int64_t{1} << 20;
  const auto bounded = [&](const char* what, std::initializer_list<int64_t> factors) -> Status {
    int64_t product = 1;
    for (const int64_t factor : factors) {
      if (factor > kWidest / product) {
        return io_error(
            fmt::format("[config] {}: {}: expected at most {}, got more", file, what, kWidest));
      }
      product *= factor;
    }
    return {};
  };
  const auto even = [&](const char* what, int64_t extent) -> Status {
    if (extent % 2 == 0) return {};
    return io_error(
        fmt::format("[config] {}: {}: expected an even number, got {}", file, what, extent));
  };
  const auto& [f, h, w] = config.patch;
  VSA_TRY(bounded("num_attention_heads * attention_head_dim", {config.num_heads, config.head_dim}));
  VSA_TRY(bounded("ffn_dim", {config.ffn_dim}));
  VSA_TRY(bounded("freq_dim", {config.freq_dim}));
  VSA_TRY(bounded("patch_size", {f, h, w}));
  VSA_TRY(bounded("in_channels * patch_size", {config.in_channels, f, h, w}));
  VSA_TRY(even("attention_head_dim", config.head_dim));  // pairs that RoPE turns
  return even("freq_dim", config.freq_dim);              // cosines and sines
}

Result<WanConfig> parse_wan_config(const nlohmann::json& json, std::string_view file,
                                   std::vector<std::string>& ignored) {
  runtime::JsonFields fields(json, file);
  if (!fields.status().ok()) return fields.status();
  WanConfig config;
  const std::vector<int64_t> patch = fields.integers("patch_size", {1, 2, 2});
  config.patch = {patch[0], patch[1], patch[2]};
  if (is_original(json)) {
    read_original(fields, config, file);
  } else {
    read_diffusers(fields, config);
  }
  config.text_dim = fields.integer("text_dim", config.text_dim);
  config.freq_dim = fields.integer("freq_dim", config.freq_dim, 2);
  config.ffn_dim = fields.integer("ffn_dim", config.ffn_dim);
  config.num_layers = fields.integer("num_layers", config.num_layers);
  config.cross_attn_norm = fields.boolean("cross_attn_norm", config.cross_attn_norm);
  config.qk_norm = parse_qk_norm(fields, json, file);
  config.eps = static_cast<float>(fields.number("eps", 1e-6, 0.0));
  config.rope_max_seq_len = fields.integer("rope_max_seq_len", config.rope_max_seq_len);
  refuse_image_to_video(fields, config, file);
  if (fields.status().ok()) fields.fail(check_wan_config(config, file));
  if (!fields.status().ok()) return fields.status();
  std::ranges::copy(fields.unread(), std::back_inserter(ignored));
  return config;
}

}  // namespace vsa::dit
