// The Wan video transformer on the CPU, in f32. Host-only.
#include "runtime/dit/cpu/model.h"

#include <cmath>

#include "runtime/dit/cpu/steps.h"
#include "runtime/nn/isa.h"

namespace vsa::dit::cpu {

CpuModel::CpuModel(const WanWeights& weights, const Context& context)
    : config_(weights.config),
      context_(context),
      has_gates_(weights.has_gates),
      patch_embedding_(weights.patch_embedding),
      text_in_(weights.text_in, nn::Activation::kGeluTanh),
      text_out_(weights.text_out),
      modulation_(weights),
      head_(weights.head) {
  for (const BlockWeights& block : weights.blocks) blocks_.emplace_back(block, config_);
}

Result<std::unique_ptr<TextContext>> CpuModel::prepare_text(const text::TextEmbedding& text) {
  // All padding rows are zeros, so one of them is computed for all.
  const int64_t padding = text.num_rows - text.num_valid;
  const int64_t keys = text.num_valid + (padding > 0 ? 1 : 0);
  nn::Buffer hidden(keys * config_.width());
  nn::Buffer projected(keys * config_.width());
  nn::WeightSpace space;
  text_in_.ready(space).forward(text.rows.data(), keys, hidden.data());
  space.clear();
  text_out_.ready(space).forward(hidden.data(), keys, projected.data());
  auto prepared = std::make_unique<CpuText>();
  prepared->bias.assign(static_cast<size_t>(keys), 0.0F);
  if (padding > 0) prepared->bias.back() = std::log(static_cast<float>(padding));
  for (const Block& block : blocks_) {
    prepared->layers.push_back(block.text_keys(projected.data(), keys, space));
  }
  return std::unique_ptr<TextContext>(std::move(prepared));
}

Result<std::unique_ptr<Steps>> CpuModel::make_steps(Grid grid, TilePlan plan) {
  return std::unique_ptr<Steps>(std::make_unique<CpuSteps>(*this, grid, std::move(plan)));
}

Result<std::unique_ptr<Model>> make_model(const WanWeights& weights, const Context& context) {
  VSA_TRY(nn::check_isa());
  return std::unique_ptr<Model>(std::make_unique<CpuModel>(weights, context));
}

}  // namespace vsa::dit::cpu
