// The Wan video transformer in f32. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/dit/block.h"
#include "runtime/dit/config.h"
#include "runtime/io/checkpoint.h"
#include "runtime/text/umt5.h"
#include "vsa/tiling.h"

namespace vsa::dit {

/// A prompt as all layers read it. It does not depend on the timestep, so once per prompt is
/// enough.
struct TextContext {
  std::vector<float> bias;  ///< [num_keys]: 0, and the logarithm of the padding rows for the last
  std::vector<nn::KeyValue> layers;
};

/// What one layer did in one pass.
struct LayerStats {
  int64_t kept_tiles = 0;  ///< over all heads and query tiles
  int64_t all_tiles = 0;
  double qkv_ms = 0.0, attention_ms = 0.0, cross_ms = 0.0, ffn_ms = 0.0;
};

struct LoadReport {
  nn::LoadSummary summary;
  std::string naming;
  bool has_gates = false;
};

class WanTransformer {
 public:
  /// @return IoError: tensors missing, of a wrong shape or type, names of no known naming, or gates
  ///         in some layers only
  static Result<WanTransformer> load(const WanConfig& config, const io::Checkpoint& checkpoint,
                                     LoadReport& report);

  const WanConfig& config() const { return config_; }
  bool has_gates() const { return has_gates_; }

  TextContext prepare_text(const text::TextEmbedding& text) const;

  /// Memory and tables for videos of one size; for one pass at a time.
  struct Workspace {
    Workspace(const WanTransformer& model, Grid grid, TilePlan plan);
    Grid grid;
    TilePlan plan;  ///< of `grid`
    nn::Rope rope;
    Activations act;
  };

  /// One pass: predicts the velocity, noise - x0.
  struct ForwardArgs {
    const float* latents = nullptr;  ///< [in_channels, F, H, W] = grid times patch
    float timestep = 0.0F;           ///< 0 to 1000
    const TextContext* text = nullptr;
    Context context;
    std::span<const int64_t> topk;  ///< [num_layers]: kv tiles kept; num_tiles runs dense
    const std::atomic<bool>* cancel = nullptr;  ///< looked at before every layer; may be null
    std::function<void()> on_layer;             ///< after every layer; may be empty
    float* velocity = nullptr;                  ///< [out_channels, F, H, W]
  };
  /// @param stats  [num_layers]; added to, also of a pass that fails
  /// @return Cancelled | Internal (a non-finite value, names the layer) | errors of
  ///         attention_forward, unchanged. velocity is written on success only.
  Status forward(const ForwardArgs& args, Workspace& workspace, std::span<LayerStats> stats) const;

 private:
  WanTransformer() = default;
  Status run_layer(size_t n, const ForwardArgs& args, std::span<const float> timestep,
                   Workspace& workspace, LayerStats& stats) const;

  WanConfig config_;
  bool has_gates_ = false;
  nn::Linear patch_embedding_;
  nn::Linear text_in_, text_out_;
  nn::Linear time_in_, time_out_, time_proj_;
  std::vector<Block> blocks_;
  std::vector<float> head_scale_shift_;  // [2, width]: shift, scale
  nn::Linear head_;
};

}  // namespace vsa::dit
