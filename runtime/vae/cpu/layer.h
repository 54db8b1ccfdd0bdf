// The layers of the VAE on the CPU. Host-only.
#pragma once

#include <memory>
#include <span>

#include "runtime/vae/cpu/workspace.h"
#include "runtime/vae/weights.h"

namespace vsa::vae::cpu {

/// A layer with its weights; x of the workspace goes in and out.
class CpuLayer {
 public:
  virtual ~CpuLayer() = default;
  virtual void run(const Run& run) const = 0;
};

/// @param weights  must outlive the layer
std::unique_ptr<CpuLayer> make_layer(const Layer& layer, const LayerWeights& weights);

/// y = norm(x), or silu of it, with all threads.
/// @param x, y   [pixels, channels]
/// @param gamma  [channels]
struct NormArgs {
  const float* x = nullptr;
  int64_t pixels = 0;
  std::span<const float> gamma;
  float* y = nullptr;
};
void norm(const NormArgs& args);
void norm_silu(const NormArgs& args);

// What make_layer chooses from.
std::unique_ptr<CpuLayer> make_attention(const Layer& layer, const LayerWeights& weights);
std::unique_ptr<CpuLayer> make_upsample(const Layer& layer, const LayerWeights& weights);
std::unique_ptr<CpuLayer> make_downsample(const Layer& layer, const LayerWeights& weights);

}  // namespace vsa::vae::cpu
