// The Wan video transformer on a device: its weights there, as the device's steps multiply with
// them. Host-only.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/memory.h"
#include "runtime/device/streamed_layers.h"
#include "runtime/dit/device/linear.h"
#include "runtime/dit/modulation.h"
#include "runtime/dit/steps.h"
#include "runtime/dit/weights.h"
#include "vsa/tiling.h"

namespace vsa::dit::device {

/// What a layer multiplies with. Products of one x are one: q, k, v and gate; k and v of the text.
struct Layer {
  Linear qkv_gate, out;
  Array norm_q, norm_k;                    ///< f32 [width]; empty without qk norm
  Array text_norm_weight, text_norm_bias;  ///< f32 [width]
  Linear text_q, text_kv, text_out;
  Array text_norm_q, text_norm_k;  ///< as norm_q
  Linear up, down;
};

/// A prompt's keys and values in every layer: of its valid rows, and of one that stands for all
/// rows of padding, which are equal.
struct Text : TextContext {
  TilePlan plan;                  ///< runs of rows
  int64_t repeats = 0;            ///< how many rows of padding are not there
  std::vector<Array> key_values;  ///< of each layer [rows, 2, width]: a row of k, then of v
  int64_t number = 0;             ///< no other text of the model has it
  explicit Text(TilePlan rows) : plan(std::move(rows)) {}
};

/// How many of a text's rows are kept: those of its tokens, and of the padding one, or two where
/// one more would fill a run, as FineArgs::last_key_repeats asks for.
int64_t rows_kept(const text::TextEmbedding& text);

class DeviceModel : public Model {
 public:
  /// @param offload  the layers' weights stay in host memory, and come to the device in each pass
  /// @return OutOfMemory | DeviceError | Unsupported (a model without a norm before
  /// cross-attention)
  static Result<std::unique_ptr<Model>> load(const WanWeights& weights,
                                             std::shared_ptr<Memory> memory, bool offload = false);

  const WanConfig& config() const override { return config_; }
  bool enqueues() const override { return true; }
  int64_t most_device_bytes() const override { return memory_->most_bytes_taken(); }
  Result<std::unique_ptr<TextContext>> prepare_text(const text::TextEmbedding& text) override;
  Result<std::unique_ptr<Steps>> make_steps(Grid grid, TilePlan plan) override;

 private:
  friend class DeviceSteps;
  DeviceModel(const WanWeights& weights, std::shared_ptr<Memory> memory);
  Status load_weights(const WanWeights& weights, bool offload);
  Result<Layer> load_layer(const BlockWeights& weights, WeightPlace& at) const;
  /// Around what reads the weights of a layer.
  Status begin_layer(int64_t layer) const { return streamed_ ? streamed_->begin(layer) : Status(); }
  Status end_layer(int64_t layer) const { return streamed_ ? streamed_->end(layer) : Status(); }

  WanConfig config_;
  bool has_gates_ = false;
  int64_t num_texts_ = 0;
  std::shared_ptr<Memory> memory_;
  TimestepModulation modulation_;  // on the host
  Linear patch_embedding_, text_in_, text_out_, head_;
  std::unique_ptr<vsa::device::StreamedLayers> streamed_;  // null: the layers are on the device
  std::vector<Layer> layers_;
};

/// Tokens in raster order in runs of 64: tiles for dense attention and for stages of which the
/// tiles do not matter.
Result<TilePlan> runs(int64_t num_tokens);

}  // namespace vsa::dit::device
