// The steps of a pass on a device. Host-only.
#include "runtime/dit/device/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/nn/parallel.h"
#include "runtime/nn/patch.h"
#include "runtime/nn/rope.h"
#include "vsa/attention.h"
#include "vsa/residual_norm.h"

namespace vsa::dit::device {
namespace {

// A layer's vectors in modulations_.
enum : int64_t { kShift1, kScale1, kGate1, kShift2, kScale2, kGate2, kPerLayer };

/// Passes of a run differ by their prompt, and by whether a step is dense; of a batch, by prompts
/// that do not come again.
constexpr size_t kMaxCaptured = 8;

}  // namespace

Result<std::unique_ptr<Steps>> DeviceSteps::make(const DeviceModel& model, Grid grid,
                                                 TilePlan plan) {
  Result<TilePlan> run_plan = runs(grid.num_tokens());
  VSA_TRY(run_plan.status());
  std::unique_ptr<DeviceSteps> steps(
      new DeviceSteps(model, grid, std::move(plan), std::move(*run_plan)));
  VSA_TRY(steps->take_memory());
  VSA_TRY(steps->bring_angles());
  return std::unique_ptr<Steps>(std::move(steps));
}

DeviceSteps::DeviceSteps(const DeviceModel& model, Grid grid, TilePlan plan, TilePlan run_plan)
    : model_(model),
      grid_(grid),
      rows_(std::move(plan)),
      run_plan_(std::move(run_plan)),
      num_tokens_(grid.num_tokens()),
      token_(model.memory_->token_dtype()) {}

Status DeviceSteps::take_memory() {
  const WanConfig& c = config();
  const int64_t row = c.width();
  const int64_t wide = std::max((model_.has_gates_ ? 4 : 3) * row, c.ffn_dim);
  const int64_t pooled = c.num_heads * plan().num_tiles() * c.head_dim;
  const auto take = [&](Array& to, DType dtype, int64_t elements) -> Status {
    Result<Array> array = memory().array(elements * size_bytes(dtype));
    VSA_TRY(array.status());
    to = std::move(*array);
    return {};
  };
  VSA_TRY(take(x_, DType::kF32, num_tokens_ * row));
  for (Array* buffer : {&n_, &a_, &b_}) VSA_TRY(take(*buffer, token_, num_tokens_ * row));
  VSA_TRY(take(wide_, token_, num_tokens_ * wide));
  VSA_TRY(take(patches_, token_, num_tokens_ * c.in_channels * c.patch.volume()));
  VSA_TRY(take(head_out_, DType::kF32, num_tokens_ * c.out_channels * c.patch.volume()));
  VSA_TRY(take(q_pooled_, DType::kF32, pooled));
  VSA_TRY(take(k_pooled_, DType::kF32, pooled));
  return take(modulations_, DType::kF32, (c.num_layers * kPerLayer + 2) * row);
}

nn::PatchLayout DeviceSteps::patch_layout(int64_t channels) const {
  return {.channels = channels, .grid = grid_, .patch = config().patch, .order = rows_.order};
}

Status DeviceSteps::bring_angles() {
  const auto size = static_cast<size_t>(num_tokens_ * config().head_dim / 2);
  std::vector<float> cos(size);
  std::vector<float> sin(size);
  nn::Rope(grid_, config().head_dim, rows_.order).write_tables(cos.data(), sin.data());
  Result<Array> there = memory().f32(cos);
  VSA_TRY(there.status());
  cos_ = std::move(*there);
  there = memory().f32(sin);
  VSA_TRY(there.status());
  sin_ = std::move(*there);
  return {};
}

Status DeviceSteps::bring_modulations(float timestep) {
  if (timestep_ == timestep) return {};
  const Modulations all = model_.modulation_.at(timestep, space_);
  std::vector<float> rows;
  const auto add = [&](const std::vector<float>& row) {
    rows.insert(rows.end(), row.begin(), row.end());
  };
  for (const Modulation& m : all.layers) {
    for (const auto* row : {&m.shift1, &m.scale1, &m.gate1, &m.shift2, &m.scale2, &m.gate2}) {
      add(*row);
    }
  }
  add(all.head_shift);
  add(all.head_scale);
  VSA_TRY(memory().copy_in_rounded(modulations_.data(), DType::kF32, rows));
  timestep_ = timestep;
  return {};
}

const void* DeviceSteps::modulation(int64_t layer, int64_t n) const {
  return static_cast<const float*>(modulations_.data()) +
         (layer * kPerLayer + n) * config().width();
}

Tensor DeviceSteps::qkv(int64_t index) const {
  return part(wide_.data(), token_, config(),
              {.rows = num_tokens_, .index = index, .of = model_.has_gates_ ? 4 : 3});
}

Tensor DeviceSteps::tokens(const Array& buffer) const {
  return part(buffer.data(), token_, config(), {.rows = num_tokens_});
}

Status DeviceSteps::residual_norm(const Norm& norm) {
  const ResidualNormArgs args{.x = part(x_.data(), DType::kF32, config(), {.rows = num_tokens_}),
                              .y = norm.add ? ConstTensor(tokens(b_)) : ConstTensor{},
                              .gate = vector(norm.gate, config()),
                              .scale = vector(norm.scale, config()),
                              .shift = vector(norm.shift, config()),
                              .eps = config().eps,
                              .out = tokens(n_)};
  const double bytes =
      (norm.add ? 2.0 : 1.0) * bytes_of(args.x) + bytes_of(args.y) + bytes_of(args.out);
  return memory().call({.kind = "residual_norm", .bytes = bytes},
                       [&](const Context& context) { return vsa::residual_norm(context, args); });
}

Status DeviceSteps::norm_after(int64_t layer, const Norm& added) {
  Norm norm = added;
  // Behind the last layer the head's shift and scale are where a layer has its first two.
  norm.shift = modulation(layer + 1, kShift1);
  norm.scale = modulation(layer + 1, kScale1);
  return residual_norm(norm);
}

Status DeviceSteps::begin(const float* latents, float timestep) {
  VSA_TRY(bring_modulations(timestep));
  const nn::PatchLayout layout = patch_layout(config().in_channels);
  host_rows_.resize(static_cast<size_t>(num_tokens_ * layout.width()));
  nn::parallel_rows(num_tokens_, [&](const nn::RowBlock& block) {
    nn::patchify(layout, latents, block.begin, block.end,
                 host_rows_.data() + block.begin * layout.width());
  });
  VSA_TRY(memory().copy_in_rounded(patches_.data(), token_, host_rows_));
  VSA_TRY(model_.patch_embedding_.forward(memory(), "patch_embedding", patches_.data(), num_tokens_,
                                          x_.data()));
  return norm_after(-1, {});
}

Status DeviceSteps::project(int64_t layer) {
  const Layer& weights = this->layer(layer);
  VSA_TRY(model_.begin_layer(layer));
  VSA_TRY(weights.qkv_gate.forward(memory(), "qkv_gate", n_.data(), num_tokens_, wide_.data()));
  NormTokens how{.weight = &weights.norm_q, .cos = &cos_, .sin = &sin_, .pooled = &q_pooled_};
  VSA_TRY(norm_tokens(memory(), config(), plan(), qkv(0), how));
  how.weight = &weights.norm_k;
  how.pooled = &k_pooled_;
  return norm_tokens(memory(), config(), plan(), qkv(1), how);
}

Result<DeviceLut> DeviceSteps::take_lut(const LutDims& dims) const {
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  constexpr auto kEntry = static_cast<int64_t>(sizeof(int32_t));
  Result<Array> index = memory().array(rows * dims.pitch * kEntry);
  VSA_TRY(index.status());
  Result<Array> count = memory().array(rows * kEntry);
  VSA_TRY(count.status());
  return DeviceLut{.index = std::move(*index), .count = std::move(*count), .dims = dims};
}

Result<Lut> DeviceSteps::full_lut(int64_t num_kv_tiles) {
  const auto known = full_luts_.find(num_kv_tiles);
  if (known != full_luts_.end()) return known->second.view();
  const LutDims dims{.batch = 1,
                     .num_heads = config().num_heads,
                     .num_q_tiles = run_plan_.num_tiles(),
                     .pitch = num_kv_tiles};
  const LutBuffer host = LutBuffer::dense(dims);
  Result<DeviceLut> lut = take_lut(dims);
  VSA_TRY(lut.status());
  VSA_TRY(memory().copy_in(lut->index.data(), host.view().index, lut->index.size_bytes()));
  VSA_TRY(memory().copy_in(lut->count.data(), host.view().count, lut->count.size_bytes()));
  return full_luts_.emplace(num_kv_tiles, std::move(*lut)).first->second.view();
}

Status DeviceSteps::attend_self(int64_t /*layer*/, int64_t topk, int64_t* kept) {
  // Without gates the coarse branch only selects, and a dense layer selects nothing.
  const bool dense = topk == plan().num_tiles() && !model_.has_gates_;
  return dense ? attend_densely(kept) : attend_sparsely(topk, kept);
}

template <class Args>
Status DeviceSteps::attend(const char* kind, double kept_share, const Args& args,
                           const std::function<Status(const Context&)>& enqueue) const {
  const double pairs = static_cast<double>(args.q.shape[2]) * static_cast<double>(args.k.shape[2]);
  const double bytes = bytes_of(args.q) + bytes_of(args.k) + bytes_of(args.v) + bytes_of(args.out);
  return memory().call(
      {.kind = kind, .flops = attention_flops(config(), kept_share * pairs), .bytes = bytes},
      enqueue);
}

Status DeviceSteps::attend_densely(int64_t* kept) {
  const Result<Lut> lut = full_lut(run_plan_.num_tiles());
  VSA_TRY(lut.status());
  if (kept != nullptr) *kept = config().num_heads * plan().num_tiles() * plan().num_tiles();
  const FineArgs args{.q = qkv(0),
                      .k = qkv(1),
                      .v = qkv(2),
                      .q_plan = &run_plan_,
                      .kv_plan = &run_plan_,
                      .lut = *lut,
                      .out = tokens(a_)};
  return attend("dense attention", 1.0, args,
                [&](const Context& context) { return fine(context, args); });
}

Status DeviceSteps::attend_sparsely(int64_t topk, int64_t* kept) {
  const Dims pooled{.num_heads = config().num_heads,
                    .seq_len = plan().num_tiles(),
                    .head_dim = config().head_dim};
  AttentionArgs args;
  args.q = qkv(0);
  args.k = qkv(1);
  args.v = qkv(2);
  args.gate_coarse = model_.has_gates_ ? Gate::tensor(qkv(3)) : Gate::zero();
  args.q_plan = &plan();
  args.kv_plan = &plan();
  args.select.topk = topk;
  args.q_pooled = ConstTensor::bhsd(q_pooled_.data(), DType::kF32, pooled);
  args.k_pooled = ConstTensor::bhsd(k_pooled_.data(), DType::kF32, pooled);
  args.out = tokens(a_);
  const int64_t rows = config().num_heads * plan().num_tiles();
  if (kept != nullptr) {
    if (selection_.dims.pitch != topk || selection_.index.empty()) {
      Result<DeviceLut> lut = take_lut({.batch = 1,
                                        .num_heads = config().num_heads,
                                        .num_q_tiles = plan().num_tiles(),
                                        .pitch = topk});
      VSA_TRY(lut.status());
      selection_ = std::move(*lut);
    }
    args.lut_out = selection_.view();
  }
  const double kept_share = static_cast<double>(topk) / static_cast<double>(plan().num_tiles());
  VSA_TRY(attend("sparse attention", kept_share, args,
                 [&](const Context& context) { return attention_forward(context, args); }));
  if (kept == nullptr) return {};
  std::vector<int32_t> counts(static_cast<size_t>(rows));
  VSA_TRY(memory().copy_out(counts.data(), selection_.count.data(), selection_.count.size_bytes()));
  *kept = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  return {};
}

Status DeviceSteps::attend_text(int64_t layer, const TextContext& text) {
  const Layer& weights = this->layer(layer);
  const auto& keys = dynamic_cast<const Text&>(text);
  VSA_TRY(weights.out.forward(memory(), "out", a_.data(), num_tokens_, b_.data()));
  VSA_TRY(residual_norm({.add = true,
                         .gate = modulation(layer, kGate1),
                         .scale = weights.text_norm_weight.data(),
                         .shift = weights.text_norm_bias.data()}));
  VSA_TRY(weights.text_q.forward(memory(), "text_q", n_.data(), num_tokens_, b_.data()));
  VSA_TRY(norm_tokens(memory(), config(), run_plan_, tokens(b_), {.weight = &weights.text_norm_q}));
  const Result<Lut> lut = full_lut(keys.plan.num_tiles());
  VSA_TRY(lut.status());
  void* const kv = keys.key_values[static_cast<size_t>(layer)].data();
  const auto of_text = [&](int64_t index) {
    return part(kv, token_, config(), {.rows = keys.plan.seq_len(), .index = index, .of = 2});
  };
  const FineArgs args{.q = tokens(b_),
                      .k = of_text(0),
                      .v = of_text(1),
                      .q_plan = &run_plan_,
                      .kv_plan = &keys.plan,
                      .lut = *lut,
                      .out = tokens(a_),
                      .last_key_repeats = keys.repeats};
  VSA_TRY(attend("text attention", 1.0, args,
                 [&](const Context& context) { return fine(context, args); }));
  VSA_TRY(weights.text_out.forward(memory(), "text_out", a_.data(), num_tokens_, b_.data()));
  return residual_norm(
      {.add = true, .scale = modulation(layer, kScale2), .shift = modulation(layer, kShift2)});
}

Status DeviceSteps::feed_forward(int64_t layer) {
  const Layer& weights = this->layer(layer);
  VSA_TRY(weights.up.forward(memory(), "up", n_.data(), num_tokens_, wide_.data(),
                             Activation::kGeluTanh));
  VSA_TRY(weights.down.forward(memory(), "down", wide_.data(), num_tokens_, b_.data()));
  VSA_TRY(model_.end_layer(layer));
  return norm_after(layer, {.add = true, .gate = modulation(layer, kGate2)});
}

Status DeviceSteps::run_layers(std::span<const int64_t> topk, const TextContext& text,
                               const std::function<Status()>& enqueue) {
  if (!has_graphs_ || memory().measures_calls()) return enqueue();
  const int64_t number = dynamic_cast<const Text&>(text).number;
  // A captured call that would write to an old workspace is of no use any more.
  std::erase_if(captured_, [&](const CapturedLayers& layers) {
    return layers.workspace != memory().workspace_number();
  });
  for (const CapturedLayers& layers : captured_) {
    if (layers.text == number && std::ranges::equal(layers.topk, topk)) {
      return memory().launch(layers.graph);
    }
  }
  VSA_TRY(enqueue());  // also takes the workspace and tables that a graph cannot take
  Result<DeviceGraph> graph = memory().capture(enqueue);
  if (graph.status().code() == StatusCode::kUnsupported) {
    has_graphs_ = false;
    return {};
  }
  VSA_TRY(graph.status());
  if (captured_.size() == kMaxCaptured) captured_.erase(captured_.begin());
  captured_.push_back({.topk = {topk.begin(), topk.end()},
                       .text = number,
                       .workspace = memory().workspace_number(),
                       .graph = std::move(*graph)});
  return {};
}

Result<bool> DeviceSteps::finite() {
  std::vector<float> x(static_cast<size_t>(num_tokens_ * config().width()));
  VSA_TRY(read_residual(x));
  return std::ranges::all_of(x, [](float e) { return std::isfinite(e); });
}

Status DeviceSteps::end(float* velocity) {
  const nn::PatchLayout layout = patch_layout(config().out_channels);
  VSA_TRY(model_.head_.forward(memory(), "head", n_.data(), num_tokens_, head_out_.data()));
  host_rows_.resize(static_cast<size_t>(num_tokens_ * layout.width()));
  VSA_TRY(memory().copy_out(host_rows_.data(), head_out_.data(), head_out_.size_bytes()));
  nn::parallel_rows(num_tokens_, [&](const nn::RowBlock& block) {
    nn::unpatchify(layout, host_rows_.data() + block.begin * layout.width(), block.begin, block.end,
                   velocity);
  });
  return {};
}

Status DeviceSteps::read_residual(std::span<float> x) {
  return memory().copy_out(x.data(), x_.data(), std::ssize(x) * size_bytes(DType::kF32));
}

}  // namespace vsa::dit::device
