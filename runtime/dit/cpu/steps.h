// The steps of a pass on the CPU, and the model that makes them. Host-only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/dit/cpu/activations.h"
#include "runtime/dit/cpu/block.h"
#include "runtime/dit/modulation.h"
#include "runtime/dit/steps.h"
#include "runtime/dit/token_rows.h"
#include "runtime/nn/convert.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/rope.h"

namespace vsa::dit::cpu {

struct CpuText : TextContext {
  std::vector<float> bias;  ///< [num_keys]: 0, and the logarithm of the padding rows for the last
  std::vector<nn::KeyValue> layers;
};

class CpuModel : public Model {
 public:
  CpuModel(const WanWeights& weights, const Context& context);

  const WanConfig& config() const override { return config_; }
  bool enqueues() const override { return false; }
  Result<std::unique_ptr<TextContext>> prepare_text(const text::TextEmbedding& text) override;
  Result<std::unique_ptr<Steps>> make_steps(Grid grid, TilePlan plan) override;

 private:
  friend class CpuSteps;
  WanConfig config_;
  Context context_;
  bool has_gates_ = false;
  nn::Linear patch_embedding_;
  nn::Linear text_in_, text_out_;
  TimestepModulation modulation_;
  std::vector<Block> blocks_;
  nn::Linear head_;
};

/// Everything has run when a step returns.
class CpuSteps : public Steps {
 public:
  CpuSteps(const CpuModel& model, Grid grid, TilePlan plan);

  const WanConfig& config() const override { return model_.config_; }
  const TilePlan& plan() const override { return rows_.plan; }
  Status begin(const float* latents, float timestep) override;
  Status project(int64_t layer) override;
  Status attend_self(int64_t layer, int64_t topk, int64_t* kept) override;
  Status attend_text(int64_t layer, const TextContext& text) override;
  Status feed_forward(int64_t layer) override;
  Status run_layers(std::span<const int64_t> /*topk*/, const TextContext& /*text*/,
                    const std::function<Status()>& enqueue) override {
    return enqueue();
  }
  Result<bool> finite() override { return finite_; }
  Status end(float* velocity) override;
  Status read_residual(std::span<float> x) override;

 private:
  const Block& block(int64_t layer) const { return model_.blocks_[static_cast<size_t>(layer)]; }
  const Modulation& modulation(int64_t layer) const {
    return modulations_.layers[static_cast<size_t>(layer)];
  }

  const CpuModel& model_;
  Grid grid_;
  TokenRows rows_;
  nn::Rope rope_;
  Activations act_;
  Modulations modulations_;  // by this timestep
  bool finite_ = true;
};

}  // namespace vsa::dit::cpu
