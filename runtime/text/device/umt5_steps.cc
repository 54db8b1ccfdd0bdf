// The umT5 text encoder on a device: the library's stages on one stream, weights on another.
// Host-only.
//
// Buffers of one row a token: x in f32; n, b [d_model], wide [3 inner or d_ff], linear [d_ff] and a
// [inner or d_ff] in the token dtype. Between two steps n holds the norm of x that comes next:
//
//   begin         rows -> x;  n = norm1(x)
//   attend        n -> wide = q, k, v;  a = attention;  a -> b;  x += b, n = norm2(x)
//   feed_forward  n -> wide = gelu, n -> linear;  a = wide * linear;  a -> b;
//                 x += b, n = norm1(x) of the next layer, or the last norm
//   end           n -> rows
//
// Layer i has its weights in slot i % 2. They are brought once the layer before the last has been
// computed, which wait for nothing else, and the layer waits for them.
#include "runtime/text/device/umt5_steps.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/device/weight_stream.h"
#include "runtime/nn/convert.h"
#include "runtime/text/device/umt5_layout.h"
#include "runtime/text/relative_bucket.h"
#include "vsa/linear.h"
#include "vsa/relative_attention.h"
#include "vsa/residual_norm.h"
#include "vsa/stages.h"

namespace vsa::text::device {
namespace {

using vsa::device::Array;
using vsa::device::Memory;
using vsa::device::WeightStream;

/// A layer's weights, and until when they are needed.
struct Slot {
  Array weights;
  DeviceEvent brought, used;
};

class DeviceUmt5Steps : public Umt5Steps {
 public:
  DeviceUmt5Steps(const Umt5Weights& weights, std::shared_ptr<Memory> memory)
      : config_(weights.config),
        layers_(&weights.layers),
        final_norm_(&weights.final_norm),
        layout_(weights.config),
        memory_(std::move(memory)),
        token_(memory_->token_dtype()) {}
  ~DeviceUmt5Steps() override { static_cast<void>(memory_->wait()); }

  Status load();
  Status begin(const float* rows, int64_t num_tokens) override;
  Status attend(int64_t layer) override;
  Status feed_forward(int64_t layer) override;
  Status end(float* rows) override;
  Status read_residual(std::span<float> x) override {
    return memory_->copy_out(x.data(), x_.data(), std::ssize(x) * size_bytes(DType::kF32));
  }

 private:
  Status take(Array& to, int64_t elements, DType dtype);
  Status take_memory(int64_t num_tokens);
  Status bring_biases();
  Status bring_layer(int64_t layer);

  int64_t num_layers() const { return std::ssize(*layers_); }
  Slot& slot(int64_t layer) { return slots_[static_cast<size_t>(layer % 2)]; }

  /// y = activation(x W^T), W being [out, in] at `offset` of the layer's weights.
  struct Product {
    int64_t layer, offset;
    int64_t in, out;
    Activation activation = Activation::kNone;
  };
  Status multiply(const Product& product, const Array& x, const Array& y);
  /// n = the norm of that number (two of each layer, then the last) of x, after x += b if `add`.
  struct Norm {
    int64_t index;
    bool add = false;
  };
  Status norm(const Norm& norm);
  /// a = attention of q, k and v in wide.
  Status relative(int64_t layer);

  const Umt5Config config_;
  const std::vector<Umt5LayerWeights>* layers_;
  const nn::Weight* final_norm_;
  const LayerLayout layout_;
  std::shared_ptr<Memory> memory_;
  const DType token_;
  int64_t tokens_ = 0;
  Array norms_;   // f32 [2 * num_layers + 1, d_model]
  Array biases_;  // f32 [num_layers, num_heads, bias_row(tokens)]
  Array x_, n_, b_, wide_, linear_, a_;
  std::optional<TilePlan> run_;  // of the tokens
  std::array<Slot, 2> slots_;
  std::unique_ptr<WeightStream> stream_;  // ends before the slots do, into which it copies
};

Status DeviceUmt5Steps::take(Array& to, int64_t elements, DType dtype) {
  to = {};  // first, so that both are not there at the same time
  Result<Array> taken = memory_->array(elements * size_bytes(dtype));
  VSA_TRY(taken.status());
  to = std::move(*taken);
  return {};
}

Status DeviceUmt5Steps::load() {
  VSA_TRY(take(norms_, (2 * num_layers() + 1) * config_.d_model, DType::kF32));
  std::vector<float> norms;
  const auto add = [&](const nn::Weight& weight) {
    const std::vector<float> values = nn::values(weight);
    norms.insert(norms.end(), values.begin(), values.end());
  };
  for (const Umt5LayerWeights& layer : *layers_) {
    add(layer.norm1);
    add(layer.norm2);
  }
  add(*final_norm_);
  VSA_TRY(memory_->copy_in(norms_.data(), norms.data(), norms_.size_bytes()));
  auto stream = WeightStream::make(*memory_);
  VSA_TRY(stream.status());
  stream_ = std::move(*stream);
  for (int64_t i = 0; i < std::min<int64_t>(num_layers(), 2); ++i) {
    VSA_TRY(take(slot(i).weights, layout_.size, token_));
    for (DeviceEvent* event : {&slot(i).brought, &slot(i).used}) {
      Result<DeviceEvent> made = memory_->device().make_event();
      VSA_TRY(made.status());
      *event = std::move(*made);
    }
  }
  return {};
}

Status DeviceUmt5Steps::take_memory(int64_t num_tokens) {
  tokens_ = num_tokens;
  const Umt5Config& c = config_;
  Result<TilePlan> run = TilePlan::grid({1, 1, tokens_}, {1, 1, 64});
  VSA_TRY(run.status());
  run_.emplace(std::move(*run));
  VSA_TRY(take(biases_, num_layers() * c.num_heads * bias_row(tokens_), DType::kF32));
  VSA_TRY(take(x_, tokens_ * c.d_model, DType::kF32));
  VSA_TRY(take(n_, tokens_ * c.d_model, token_));
  VSA_TRY(take(b_, tokens_ * c.d_model, token_));
  VSA_TRY(take(wide_, tokens_ * std::max(3 * c.inner(), c.d_ff), token_));
  VSA_TRY(take(linear_, tokens_ * c.d_ff, token_));
  return take(a_, tokens_ * std::max(c.inner(), c.d_ff), token_);
}

Status DeviceUmt5Steps::bring_biases() {
  const int64_t row = bias_row(tokens_);
  std::vector<float> biases(static_cast<size_t>(num_layers() * config_.num_heads * row), 0.0F);
  for (int64_t layer = 0; layer < num_layers(); ++layer) {
    const auto table = nn::values((*layers_)[static_cast<size_t>(layer)].relative_bias);
    for (int64_t relative = 1 - tokens_; relative < tokens_; ++relative) {
      const int64_t bucket = relative_bucket(relative, config_.num_buckets, config_.max_distance);
      for (int64_t h = 0; h < config_.num_heads; ++h) {
        const int64_t to = (layer * config_.num_heads + h) * row + relative + tokens_ - 1;
        biases[static_cast<size_t>(to)] =
            table[static_cast<size_t>(bucket * config_.num_heads + h)];
      }
    }
  }
  return memory_->copy_in(biases_.data(), biases.data(), biases_.size_bytes());
}

Status DeviceUmt5Steps::bring_layer(int64_t layer) {
  const Umt5LayerWeights& from = (*layers_)[static_cast<size_t>(layer)];
  const Slot& to = slot(layer);
  VSA_TRY(stream_->wait_for(to.used));
  auto* at = static_cast<std::byte*>(to.weights.data());
  // In the order of LayerLayout.
  for (const nn::LinearWeights* linear :
       {&from.q, &from.k, &from.v, &from.out, &from.gelu_in, &from.linear_in, &from.down}) {
    VSA_TRY(stream_->bring(at, token_, linear->weight));
    at += linear->weight.num_elements() * size_bytes(token_);
  }
  return stream_->record(to.brought);
}

Status DeviceUmt5Steps::multiply(const Product& p, const Array& x, const Array& y) {
  const auto matrix = [&](const void* data, int64_t rows, int64_t columns) {
    return ConstTensor::bshd(data, token_, {.seq_len = rows, .head_dim = columns});
  };
  const auto* weights = static_cast<const std::byte*>(slot(p.layer).weights.data());
  const LinearArgs args{
      .x = matrix(x.data(), tokens_, p.in),
      .weight = matrix(weights + p.offset * size_bytes(token_), p.out, p.in),
      .activation = p.activation,
      .out = Tensor::bshd(y.data(), token_, {.seq_len = tokens_, .head_dim = p.out})};
  return memory_->call({.kind = "linear"}, [&](const Context& c) { return vsa::linear(c, args); });
}

Status DeviceUmt5Steps::norm(const Norm& which) {
  const int64_t dim = split_width(config_.d_model, 8, memory_->traits().max_head_dim);
  const Dims dims{.num_heads = config_.d_model / dim, .seq_len = tokens_, .head_dim = dim};
  const Dims one{.num_heads = dims.num_heads, .head_dim = dim};
  const auto* scale = static_cast<const float*>(norms_.data()) + which.index * config_.d_model;
  const ResidualNormArgs args{
      .x = Tensor::bshd(x_.data(), DType::kF32, dims),
      .y = which.add ? ConstTensor::bshd(b_.data(), token_, dims) : ConstTensor{},
      .scale = ConstTensor::bshd(scale, DType::kF32, one),
      .eps = config_.eps,
      .norm = NormKind::kRms,
      .out = Tensor::bshd(n_.data(), token_, dims)};
  return memory_->call({.kind = "residual_norm"},
                       [&](const Context& c) { return vsa::residual_norm(c, args); });
}

Status DeviceUmt5Steps::relative(int64_t layer) {
  const Dims dims{.num_heads = config_.num_heads, .seq_len = tokens_, .head_dim = config_.d_kv};
  const auto part = [&](int64_t index) {  // of a row of q, k and v
    const int64_t offset = index * config_.inner() * size_bytes(token_);
    auto t = ConstTensor::bshd(static_cast<const std::byte*>(wide_.data()) + offset, token_, dims);
    t.stride[2] *= 3;
    t.stride[0] *= 3;
    return t;
  };
  const int64_t row = bias_row(tokens_);
  auto bias =
      ConstTensor::bhsd(static_cast<const float*>(biases_.data()) + layer * config_.num_heads * row,
                        DType::kF32, {.num_heads = config_.num_heads, .head_dim = row});
  bias.shape[3] = 2 * tokens_ - 1;
  const RelativeAttentionArgs args{.q = part(0),
                                   .k = part(1),
                                   .v = part(2),
                                   .bias = bias,
                                   .scale = 1.0F,
                                   .out = Tensor::bshd(a_.data(), token_, dims)};
  return memory_->call({.kind = "relative_attention"},
                       [&](const Context& c) { return vsa::relative_attention(c, args); });
}

Status DeviceUmt5Steps::begin(const float* rows, int64_t num_tokens) {
  if (num_tokens != tokens_) VSA_TRY(take_memory(num_tokens));
  VSA_TRY(bring_biases());
  VSA_TRY(memory_->copy_in(x_.data(), rows, x_.size_bytes()));
  VSA_TRY(bring_layer(0));
  return norm({.index = 0});
}

Status DeviceUmt5Steps::attend(int64_t layer) {
  const Umt5Config& c = config_;
  VSA_TRY(memory_->device().stream().wait_for(slot(layer).brought));
  VSA_TRY(multiply({.layer = layer, .offset = layout_.qkv, .in = c.d_model, .out = 3 * c.inner()},
                   n_, wide_));
  VSA_TRY(relative(layer));
  VSA_TRY(
      multiply({.layer = layer, .offset = layout_.out, .in = c.inner(), .out = c.d_model}, a_, b_));
  return norm({.index = 2 * layer + 1, .add = true});
}

Status DeviceUmt5Steps::feed_forward(int64_t layer) {
  const Umt5Config& c = config_;
  VSA_TRY(multiply({.layer = layer,
                    .offset = layout_.gelu_in,
                    .in = c.d_model,
                    .out = c.d_ff,
                    .activation = Activation::kGeluTanh},
                   n_, wide_));
  VSA_TRY(multiply({.layer = layer, .offset = layout_.linear_in, .in = c.d_model, .out = c.d_ff},
                   n_, linear_));
  const BackendTraits& traits = memory_->traits();
  const int64_t dim = split_width(c.d_ff, traits.head_dim_step, traits.max_head_dim);
  const Dims dims{.num_heads = c.d_ff / dim, .seq_len = tokens_, .head_dim = dim};
  const CombineArgs product{
      .fine_out = ConstTensor::bshd(linear_.data(), token_, dims),
      .gate_coarse = Gate::zero(),
      .gate_fine = Gate::tensor(ConstTensor::bshd(wide_.data(), token_, dims)),
      .q_plan = &*run_,
      .out = Tensor::bshd(a_.data(), token_, dims)};
  VSA_TRY(memory_->call({.kind = "combine"},
                        [&](const Context& context) { return combine(context, product); }));
  VSA_TRY(
      multiply({.layer = layer, .offset = layout_.down, .in = c.d_ff, .out = c.d_model}, a_, b_));
  VSA_TRY(norm({.index = 2 * layer + 2, .add = true}));
  VSA_TRY(memory_->device().stream().record(slot(layer).used));
  return layer + 1 < num_layers() ? bring_layer(layer + 1) : Status();
}

Status DeviceUmt5Steps::end(float* rows) {
  std::vector<std::byte> narrow(static_cast<size_t>(n_.size_bytes()));
  VSA_TRY(memory_->copy_out(narrow.data(), n_.data(), n_.size_bytes()));
  nn::widen(io::to_storage_type(token_), narrow.data(), tokens_ * config_.d_model, 1.0F, rows);
  return {};
}

}  // namespace

Result<std::unique_ptr<Umt5Steps>> make_steps(const Umt5Weights& weights,
                                              std::shared_ptr<Memory> memory) {
  VSA_TRY(check_config(weights.config, memory->device().context().backend, memory->traits()));
  auto steps = std::make_unique<DeviceUmt5Steps>(weights, std::move(memory));
  VSA_TRY(steps->load());
  return std::unique_ptr<Umt5Steps>(std::move(steps));
}

}  // namespace vsa::text::device
