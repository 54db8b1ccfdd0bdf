// The steps of a pass on a device: the library's stages on one stream, in the device's memory.
// Host-only.
//
// Buffers of one row a token: x in f32; n, a, b [width] and wide [4 width or ffn_dim] in the token
// dtype. Between two steps n holds the norm of x that the next one reads:
//
//   begin         patches -> x;  n = norm(x)
//   project       n -> wide = q, k, v, gate;  q, k: norm, rotation, means of tiles
//   attend_self   wide -> a = attention
//   attend_text   a -> b;  x += gate1 b, n = norm(x);  n -> b = q;  a = attention to the text;
//                 a -> b;  x += b, n = norm(x)
//   feed_forward  n -> wide -> b;  x += gate2 b, n = norm(x) for the next layer or the head
//   end           n -> velocity
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/dit/device/model.h"
#include "runtime/dit/device/tokens.h"
#include "runtime/dit/token_rows.h"
#include "runtime/nn/buffer.h"
#include "runtime/nn/patch.h"
#include "vsa/device_stream.h"
#include "vsa/lut.h"

namespace vsa::dit::device {

/// A table in the device's memory.
struct DeviceLut {
  Array index, count;
  LutDims dims;
  Lut view() const {
    return {static_cast<int32_t*>(index.data()), static_cast<int32_t*>(count.data()), dims};
  }
};

/// All layers of a pass, captured, and what they were captured for.
struct CapturedLayers {
  std::vector<int64_t> topk;
  int64_t text = 0;       ///< its number
  int64_t workspace = 0;  ///< the workspace's
  DeviceGraph graph;
};

/// A step enqueues and returns; attend_self with `kept`, finite, end and read_residual wait.
class DeviceSteps : public Steps {
 public:
  static Result<std::unique_ptr<Steps>> make(const DeviceModel& model, Grid grid, TilePlan plan);

  const WanConfig& config() const override { return model_.config_; }
  const TilePlan& plan() const override { return rows_.plan; }
  Status begin(const float* latents, float timestep) override;
  Status project(int64_t layer) override;
  Status attend_self(int64_t layer, int64_t topk, int64_t* kept) override;
  Status attend_text(int64_t layer, const TextContext& text) override;
  Status feed_forward(int64_t layer) override;
  /// Captures what is enqueued in a graph, and replays it from the second time on.
  Status run_layers(std::span<const int64_t> topk, const TextContext& text,
                    const std::function<Status()>& enqueue) override;
  Result<bool> finite() override;
  Status end(float* velocity) override;
  Status read_residual(std::span<float> x) override;

 private:
  DeviceSteps(const DeviceModel& model, Grid grid, TilePlan plan, TilePlan run_plan);
  Status take_memory();
  Status bring_angles();
  Status bring_modulations(float timestep);

  /// x += gate * b (without `gate` b alone; without `add` x stays), n = norm(x) * scale + shift.
  struct Norm {
    bool add = false;
    const void* gate = nullptr;
    const void* scale = nullptr;
    const void* shift = nullptr;
  };
  Status residual_norm(const Norm& norm);
  /// The norm that is read first after a layer's feed-forward; of -1: by the first layer.
  Status norm_after(int64_t layer, const Norm& added);
  /// Makes a call whose queries attend to that share of the keys.
  template <class Args>
  Status attend(const char* kind, double kept_share, const Args& args,
                const std::function<Status(const Context&)>& enqueue) const;
  Status attend_densely(int64_t* kept);
  Status attend_sparsely(int64_t topk, int64_t* kept);

  Memory& memory() const { return *model_.memory_; }
  const Layer& layer(int64_t i) const { return model_.layers_[static_cast<size_t>(i)]; }
  /// Vector n of a layer's six, or of the two behind the last layer's, which are the head's.
  const void* modulation(int64_t layer, int64_t n) const;
  nn::PatchLayout patch_layout(int64_t channels) const;
  /// Of wide, q, k, v and maybe the gate.
  Tensor qkv(int64_t index) const;
  Tensor tokens(const Array& buffer) const;
  /// Uninitialised.
  Result<DeviceLut> take_lut(const LutDims& dims) const;
  /// Every run of tokens keeps all of that many tiles. Made once.
  Result<Lut> full_lut(int64_t num_kv_tiles);

  const DeviceModel& model_;
  Grid grid_;
  TokenRows rows_;
  TilePlan run_plan_;
  int64_t num_tokens_ = 0;
  DType token_;
  Array x_, n_, a_, b_, wide_, patches_, head_out_;
  Array cos_, sin_, q_pooled_, k_pooled_;
  Array modulations_;              // f32 [num_layers * 6 + 2, width]
  std::optional<float> timestep_;  // of modulations_
  nn::WeightSpace space_;
  std::vector<float> host_rows_;            // patches on the way in, the head's rows on the way out
  DeviceLut selection_;                     // what attend_self selected, where tiles are counted
  std::map<int64_t, DeviceLut> full_luts_;  // of full_lut
  std::vector<CapturedLayers> captured_;
  bool has_graphs_ = true;  // until the backend says that it has none
};

}  // namespace vsa::dit::device
