// The umT5 text encoder. Host-only.
#include "runtime/text/umt5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "runtime/json_fields.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/text_attention.h"

namespace vsa::text {

namespace {

// The table of embeddings, and the same under its other name.
constexpr const char* kTable = "shared.weight";
constexpr const char* kAlias = "encoder.embed_tokens.weight";

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

bool is_embedding(std::string_view tensor) { return tensor == kTable || tensor == kAlias; }

int64_t relative_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance) {
  const int64_t half = num_buckets / 2;
  const int64_t base = relative > 0 ? half : 0;
  const int64_t distance = std::abs(relative);
  const int64_t exact = half / 2;
  if (distance < exact) return base + distance;
  // In f32, as the models were trained: at bucket edges f64 can fall on the other side.
  const float position =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact))) *
      static_cast<float>(half - exact);
  return base + std::min(half - 1, exact + static_cast<int64_t>(position));
}

Result<Umt5Encoder> Umt5Encoder::load(const Umt5Config& config, const io::Checkpoint& checkpoint,
                                      nn::LoadSummary& summary) {
  nn::WeightLoader loader(checkpoint, "text encoder");
  Umt5Encoder encoder;
  encoder.config_ = config;
  const std::vector<int64_t> table{config.vocab_size, config.d_model};
  const bool has_alias = loader.has(kAlias);
  if (has_alias) encoder.embedding_ = loader.view(kAlias, table);
  if (!has_alias || loader.has(kTable)) encoder.embedding_ = loader.view(kTable, table);
  // Before anything is sized by num_layers, which a wrong config may put at 2^31.
  const std::string last =
      fmt::format("encoder.block.{}.layer.0.layer_norm.weight", config.num_layers - 1);
  if (!loader.has(last)) {
    return io_error(
        fmt::format("[load] text encoder: expected {} layers (num_layers), got none of {}",
                    config.num_layers, last));
  }
  const int64_t inner = config.num_heads * config.d_kv;
  const nn::LinearDims in{config.d_model, inner};
  for (int64_t n = 0; n < config.num_layers; ++n) {
    const std::string attention = fmt::format("encoder.block.{}.layer.0.", n);
    const std::string feed_forward = fmt::format("encoder.block.{}.layer.1.", n);
    const nn::LinearDims up{config.d_model, config.d_ff};
    encoder.layers_.push_back(Layer{
        .norm1 = loader.tensor(attention + "layer_norm.weight", {config.d_model}),
        .norm2 = loader.tensor(feed_forward + "layer_norm.weight", {config.d_model}),
        .q = loader.linear(attention + "SelfAttention.q", {.dims = in, .bias = false}),
        .k = loader.linear(attention + "SelfAttention.k", {.dims = in, .bias = false}),
        .v = loader.linear(attention + "SelfAttention.v", {.dims = in, .bias = false}),
        .o = loader.linear(attention + "SelfAttention.o",
                           {.dims = {inner, config.d_model}, .bias = false}),
        .relative_bias = loader.tensor(attention + "SelfAttention.relative_attention_bias.weight",
                                       {config.num_buckets, config.num_heads}),
        .gelu_in = loader.linear(feed_forward + "DenseReluDense.wi_0",
                                 {up, nn::Activation::kGeluTanh, /*bias=*/false}),
        .linear_in =
            loader.linear(feed_forward + "DenseReluDense.wi_1", {.dims = up, .bias = false}),
        .down = loader.linear(feed_forward + "DenseReluDense.wo",
                              {.dims = {config.d_ff, config.d_model}, .bias = false}),
    });
  }
  encoder.final_norm_ = loader.tensor("encoder.final_layer_norm.weight", {config.d_model});
  Result<nn::LoadSummary> finished = loader.finish();
  if (!finished.ok()) return finished.status();
  summary = *finished;
  return encoder;
}

void Umt5Encoder::run_layer(const Layer& layer, int64_t tokens, nn::Buffer& x) const {
  const int64_t width = config_.d_model;
  const int64_t inner = config_.num_heads * config_.d_kv;
  nn::Buffer n(tokens * width);
  nn::Buffer q(tokens * inner);
  nn::Buffer k(tokens * inner);
  nn::Buffer v(tokens * inner);
  const auto norm = [&](const std::vector<float>& weight) {
    nn::rms_norm({.x = x.data(),
                  .rows = tokens,
                  .width = width,
                  .eps = config_.eps,
                  .weight = weight.data(),
                  .y = n.data()});
  };

  norm(layer.norm1);
  layer.q.forward(n.data(), tokens, q.data());
  layer.k.forward(n.data(), tokens, k.data());
  layer.v.forward(n.data(), tokens, v.data());
  std::vector<int64_t> buckets;  // of key - query = 1 - tokens, ..., tokens - 1
  for (int64_t relative = 1 - tokens; relative < tokens; ++relative) {
    buckets.push_back(relative_bucket(relative, config_.num_buckets, config_.max_distance));
  }
  nn::Buffer bias(config_.num_heads * tokens * tokens);  // [num_heads, query, key]
  for (int64_t h = 0; h < config_.num_heads; ++h) {
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j) {
        const int64_t bucket = buckets[static_cast<size_t>(j - i + tokens - 1)];
        bias.data()[(h * tokens + i) * tokens + j] =
            layer.relative_bias[static_cast<size_t>(bucket * config_.num_heads + h)];
      }
    }
  }
  const nn::KeyValue kv(k.data(), v.data(), tokens, config_.num_heads, config_.d_kv);
  nn::parallel_rows(tokens, [&](const nn::RowBlock& rows) {
    float* const at = q.data() + rows.begin * inner;
    nn::attend({.q = at,
                .rows = rows.size(),
                .kv = &kv,
                .scale = 1.0F,
                .bias = bias.data() + rows.begin * tokens,
                .bias_head_stride = tokens * tokens,
                .bias_row_stride = tokens,
                .out = at});
  });
  layer.o.forward(q.data(), tokens, n.data());
  nn::add(x.span(), n.span());

  norm(layer.norm2);
  nn::Buffer gelu(tokens * config_.d_ff);
  nn::Buffer linear(tokens * config_.d_ff);
  layer.gelu_in.forward(n.data(), tokens, gelu.data());
  layer.linear_in.forward(n.data(), tokens, linear.data());
  nn::multiply(gelu.span(), linear.span());
  layer.down.forward(gelu.data(), tokens, n.data());
  nn::add(x.span(), n.span());
}

Result<TextEmbedding> Umt5Encoder::encode(std::span<const int32_t> ids, int64_t num_rows,
                                          const EncodeControl& control) const {
  const int64_t tokens = std::ssize(ids);
  const int64_t width = config_.d_model;
  if (tokens < 1 || tokens > num_rows) {
    return invalid_argument(
        fmt::format("[encode] ids: expected 1 to {} tokens, got {}", num_rows, tokens));
  }
  nn::Buffer x(tokens * width);
  const int64_t row_bytes = std::ssize(embedding_->bytes) / config_.vocab_size;
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t id = ids[static_cast<size_t>(i)];
    if (id < 0 || id >= config_.vocab_size) {
      return invalid_argument(fmt::format("[encode] ids: expected 0 to {}, got {} at position {}",
                                          config_.vocab_size - 1, id, i));
    }
    const io::TensorView row{.type = embedding_->type,
                             .shape = {width},
                             .bytes = embedding_->bytes.subspan(static_cast<size_t>(id * row_bytes),
                                                                static_cast<size_t>(row_bytes))};
    VSA_TRY(io::copy_as_f32(
        row, x.span().subspan(static_cast<size_t>(i * width), static_cast<size_t>(width))));
  }
  for (size_t n = 0; n < layers_.size(); ++n) {
    if (control.cancel != nullptr && *control.cancel) {
      return Status(StatusCode::kCancelled,
                    fmt::format("[encode] cancelled before layer {} of {}", n, layers_.size()));
    }
    run_layer(layers_[n], tokens, x);
    if (control.on_layer) control.on_layer(static_cast<int64_t>(n) + 1);
  }
  TextEmbedding text{
      .rows = nn::Buffer(num_rows * width), .num_rows = num_rows, .num_valid = tokens};
  std::ranges::fill(text.rows.span(), 0.0F);
  nn::rms_norm({.x = x.data(),
                .rows = tokens,
                .width = width,
                .eps = config_.eps,
                .weight = final_norm_.data(),
                .y = text.rows.data()});
  return text;
}

}  // namespace vsa::text
