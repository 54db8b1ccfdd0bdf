// The umT5 text encoder: the order of its steps. Host-only.
#include "runtime/text/umt5.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/nn/convert.h"

namespace vsa::text {
namespace {

/// The rows of the table that a prompt names, in f32.
/// @return InvalidArgument: an id outside the vocabulary
Result<nn::Buffer> embed(const Umt5Weights& weights, std::span<const int32_t> ids) {
  const int64_t vocab_size = weights.config.vocab_size;
  const int64_t width = weights.config.d_model;
  const nn::Weight& table = weights.embedding;
  const int64_t row_bytes = std::ssize(table.bytes) / vocab_size;
  nn::Buffer x(std::ssize(ids) * width);
  for (int64_t i = 0; i < std::ssize(ids); ++i) {
    const int64_t id = ids[static_cast<size_t>(i)];
    if (id < 0 || id >= vocab_size) {
      return invalid_argument(fmt::format("[encode] ids: expected 0 to {}, got {} at position {}",
                                          vocab_size - 1, id, i));
    }
    nn::widen(table.type, table.bytes.data() + id * row_bytes, width, table.scale,
              x.data() + i * width);
  }
  return x;
}

}  // namespace

Umt5Encoder::Umt5Encoder(Umt5Weights weights, std::unique_ptr<Umt5Steps> steps)
    : weights_(std::move(weights)), steps_(std::move(steps)) {}

Result<TextEmbedding> Umt5Encoder::encode(std::span<const int32_t> ids, int64_t num_rows,
                                          const EncodeControl& control) {
  const int64_t tokens = std::ssize(ids);
  if (tokens < 1 || tokens > num_rows) {
    return invalid_argument(
        fmt::format("[encode] ids: expected 1 to {} tokens, got {}", num_rows, tokens));
  }
  const Result<nn::Buffer> embedded = embed(weights_, ids);
  VSA_TRY(embedded.status());
  VSA_TRY(steps_->begin(embedded->data(), tokens));
  const int64_t layers = config().num_layers;
  for (int64_t n = 0; n < layers; ++n) {
    if (control.cancel != nullptr && *control.cancel) {
      return Status(StatusCode::kCancelled,
                    fmt::format("[encode] cancelled before layer {} of {}", n, layers));
    }
    VSA_TRY(steps_->attend(n));
    VSA_TRY(steps_->feed_forward(n));
    if (control.on_layer) control.on_layer(n + 1);
  }
  TextEmbedding text{
      .rows = nn::Buffer(num_rows * config().d_model), .num_rows = num_rows, .num_valid = tokens};
  std::ranges::fill(text.rows.span(), 0.0F);
  VSA_TRY(steps_->end(text.rows.data()));
  return text;
}

}  // namespace vsa::text
