// The configuration of a umT5 text encoder. Host-only.
#include "runtime/text/umt5_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/json_fields.h"

namespace vsa::text {
namespace {

/// Fields that transformers writes and that the encoder does not compute with.
constexpr std::array kBookkeeping{
    "architectures",        "classifier_dropout", "decoder_start_token_id",
    "dense_act_fn",         "dropout_rate",       "dtype",
    "eos_token_id",         "initializer_factor", "is_encoder_decoder",
    "is_gated_act",         "model_type",         "num_decoder_layers",
    "output_past",          "pad_token_id",       "scalable_attention",
    "tie_word_embeddings",  "tokenizer_class",    "torch_dtype",
    "transformers_version", "use_cache"};

}  // namespace

Result<Umt5Config> parse_umt5_config(const nlohmann::json& json, std::string_view file,
                                     std::vector<std::string>& ignored) {
  runtime::JsonFields fields(json, file);
  if (!fields.status().ok()) return fields.status();
  Umt5Config config{
      .vocab_size = fields.required_integer("vocab_size"),
      .d_model = fields.required_integer("d_model"),
      .d_kv = fields.required_integer("d_kv"),
      .num_heads = fields.required_integer("num_heads"),
      .d_ff = fields.required_integer("d_ff"),
      .num_layers = fields.required_integer("num_layers"),
      .num_buckets = fields.integer("relative_attention_num_buckets", 32, 4),
      .max_distance = fields.integer("relative_attention_max_distance", 128, 2),
      .eps = static_cast<float>(fields.number("layer_norm_epsilon", 1e-6, 0.0)),
  };
  if (const std::string kind = fields.text("feed_forward_proj", "gated-gelu");
      kind != "gated-gelu") {
    fields.fail(unsupported(
        fmt::format("[config] {}: feed_forward_proj: expected gated-gelu, got {}", file, kind)));
  }
  if (!fields.status().ok()) return fields.status();
  // Up to there buckets are exact; the logarithmic ones have to lie beyond.
  if (const int64_t exact = config.num_buckets / 4; config.max_distance <= exact) {
    return io_error(fmt::format(
        "[config] {}: relative_attention_max_distance: expected more than {}, a quarter of "
        "relative_attention_num_buckets, got {}",
        file, exact, config.max_distance));
  }
  for (const char* key : kBookkeeping) fields.present(key);
  std::ranges::copy(fields.unread(), std::back_inserter(ignored));
  return config;
}

}  // namespace vsa::text
