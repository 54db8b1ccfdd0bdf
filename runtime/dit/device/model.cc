// The Wan video transformer on a device: weights and prompts. Host-only.
#include "runtime/dit/device/model.h"

#include <algorithm>

#include "runtime/dit/device/memory_needed.h"
#include "runtime/dit/device/steps.h"

namespace vsa::dit::device {
namespace {

constexpr int64_t kRun = 64;

Result<Array> f32(WeightPlace& place, const nn::Weight& weight) {
  if (weight.empty()) return Array();
  const nn::Weight* const one = &weight;
  return place.weights(DType::kF32, {&one, 1});
}

}  // namespace

Result<TilePlan> runs(int64_t num_tokens) {
  return TilePlan::grid({1, 1, num_tokens}, {1, 1, kRun});
}

int64_t rows_kept(const text::TextEmbedding& text) {
  const int64_t of_padding = (text.num_valid + 1) % kRun == 0 ? 2 : 1;
  return std::min(text.num_rows, text.num_valid + of_padding);
}

DeviceModel::DeviceModel(const WanWeights& weights, std::shared_ptr<Memory> memory)
    : config_(weights.config),
      has_gates_(weights.has_gates),
      memory_(std::move(memory)),
      modulation_(weights) {}

Result<std::unique_ptr<Model>> DeviceModel::load(const WanWeights& weights,
                                                 std::shared_ptr<Memory> memory, bool offload) {
  if (!weights.config.cross_attn_norm) {
    return unsupported("[load] cross_attn_norm: expected true on a device, got false");
  }
  std::unique_ptr<DeviceModel> model(new DeviceModel(weights, std::move(memory)));
  VSA_TRY(model->load_weights(weights, offload));
  return std::unique_ptr<Model>(std::move(model));
}

Status DeviceModel::load_weights(const WanWeights& weights, bool offload) {
  const DType token = memory_->token_dtype();
  const auto place = [&](const nn::LinearWeights& from, DType out, Linear& to) -> Status {
    auto loaded = Linear::load(*memory_, {.in = token, .out = out}, {&from});
    VSA_TRY(loaded.status());
    to = std::move(*loaded);
    return {};
  };
  VSA_TRY(place(weights.patch_embedding, DType::kF32, patch_embedding_));
  VSA_TRY(place(weights.text_in, token, text_in_));
  VSA_TRY(place(weights.text_out, token, text_out_));
  VSA_TRY(place(weights.head, DType::kF32, head_));
  if (offload) {
    auto streamed = vsa::device::StreamedLayers::make(memory_, std::ssize(weights.blocks),
                                                      streamed_layer_bytes(weights, token));
    VSA_TRY(streamed.status());
    streamed_ = std::move(*streamed);
  }
  for (const BlockWeights& block : weights.blocks) {
    const auto streams = streamed_ ? streamed_->place(std::ssize(layers_)) : nullptr;
    auto layer = load_layer(block, streams ? *streams : *memory_);
    VSA_TRY(layer.status());
    layers_.push_back(std::move(*layer));
  }
  return {};
}

Result<Layer> DeviceModel::load_layer(const BlockWeights& weights, WeightPlace& at) const {
  Layer layer;
  const DType token = memory_->token_dtype();
  const auto place = [&](Linear& to,
                         std::initializer_list<const nn::LinearWeights*> from) -> Status {
    auto loaded = Linear::load(at, {.in = token, .out = token}, from);
    VSA_TRY(loaded.status());
    to = std::move(*loaded);
    return {};
  };
  const auto place_f32 = [&](Array& to, const nn::Weight& from) -> Status {
    auto loaded = f32(at, from);
    VSA_TRY(loaded.status());
    to = std::move(*loaded);
    return {};
  };
  const AttentionWeights& self = weights.self;
  const AttentionWeights& text = weights.text;
  VSA_TRY(place(layer.qkv_gate, {&self.q, &self.k, &self.v, &weights.gate}));
  VSA_TRY(place(layer.out, {&self.out}));
  VSA_TRY(place(layer.text_q, {&text.q}));
  VSA_TRY(place(layer.text_kv, {&text.k, &text.v}));
  VSA_TRY(place(layer.text_out, {&text.out}));
  VSA_TRY(place(layer.up, {&weights.up}));
  VSA_TRY(place(layer.down, {&weights.down}));
  VSA_TRY(place_f32(layer.norm_q, self.norm_q));
  VSA_TRY(place_f32(layer.norm_k, self.norm_k));
  VSA_TRY(place_f32(layer.text_norm_q, text.norm_q));
  VSA_TRY(place_f32(layer.text_norm_k, text.norm_k));
  VSA_TRY(place_f32(layer.text_norm_weight, weights.text_norm_weight));
  VSA_TRY(place_f32(layer.text_norm_bias, weights.text_norm_bias));
  return layer;
}

Result<std::unique_ptr<TextContext>> DeviceModel::prepare_text(const text::TextEmbedding& text) {
  const int64_t rows = rows_kept(text);
  const int64_t width = config_.width();
  const DType token = memory_->token_dtype();
  Result<TilePlan> plan = runs(rows);
  VSA_TRY(plan.status());
  auto prepared = std::make_unique<Text>(std::move(*plan));
  prepared->repeats = text.num_rows - rows;
  prepared->number = num_texts_++;

  const auto kept = text.rows.span().first(static_cast<size_t>(rows * config_.text_dim));
  Result<Array> embedded = memory_->array(std::ssize(kept) * size_bytes(token));
  VSA_TRY(embedded.status());
  VSA_TRY(memory_->copy_in_rounded(embedded->data(), token, kept));
  Result<Array> hidden = memory_->array(rows * width * size_bytes(token));
  VSA_TRY(hidden.status());
  Result<Array> projected = memory_->array(rows * width * size_bytes(token));
  VSA_TRY(projected.status());
  VSA_TRY(text_in_.forward(*memory_, "text_in", embedded->data(), rows, hidden->data(),
                           Activation::kGeluTanh));
  VSA_TRY(text_out_.forward(*memory_, "text_out", hidden->data(), rows, projected->data()));
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const Layer& layer = layers_[static_cast<size_t>(i)];
    VSA_TRY(begin_layer(i));
    Result<Array> key_values = memory_->array(2 * rows * width * size_bytes(token));
    VSA_TRY(key_values.status());
    VSA_TRY(
        layer.text_kv.forward(*memory_, "text_kv", projected->data(), rows, key_values->data()));
    VSA_TRY(norm_tokens(*memory_, config_, prepared->plan,
                        part(key_values->data(), token, config_, {.rows = rows, .of = 2}),
                        {.weight = &layer.text_norm_k}));
    VSA_TRY(end_layer(i));
    prepared->key_values.push_back(std::move(*key_values));
  }
  return std::unique_ptr<TextContext>(std::move(prepared));
}

Result<std::unique_ptr<Steps>> DeviceModel::make_steps(Grid grid, TilePlan plan) {
  return DeviceSteps::make(*this, grid, std::move(plan));
}

}  // namespace vsa::dit::device
