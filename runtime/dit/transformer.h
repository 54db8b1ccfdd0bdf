// One pass of the Wan video transformer: the order of its steps, on any device. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/dit/steps.h"
#include "vsa/status.h"

namespace vsa::dit {

/// What one layer did in one pass.
struct LayerStats {
  int64_t kept_tiles = 0;  ///< over all heads and query tiles
  int64_t all_tiles = 0;
  double qkv_ms = 0.0, attention_ms = 0.0, cross_ms = 0.0, ffn_ms = 0.0;
};

/// Predicts the velocity, noise - x0.
struct ForwardArgs {
  const float* latents = nullptr;  ///< [in_channels, F, H, W], as Steps::begin takes them
  float timestep = 0.0F;           ///< 0 to 1000
  const TextContext* text = nullptr;
  std::span<const int64_t> topk;              ///< [num_layers]: kv tiles kept; num_tiles is dense
  const std::atomic<bool>* cancel = nullptr;  ///< as forward says; may be null
  std::function<void()> on_layer;             ///< once for every layer; may be empty
  float* velocity = nullptr;                  ///< [out_channels, F, H, W]
};

/// Runs the pass layer by layer.
/// @param stats  [num_layers]; added to, also of a pass that fails: after each layer the host waits
///               for the device, takes times and checks x; before each it looks at `cancel`. Empty:
///               the host looks at `cancel` before the pass and waits at its end alone, so that a
///               device may record the layers and replay them; a velocity that is not finite is
///               then traced to its layer by another pass with stats.
/// @return Cancelled | Internal (a non-finite value, names the layer) | errors of the steps,
///         unchanged. velocity is written on success only.
Status forward(const ForwardArgs& args, Steps& steps, std::span<LayerStats> stats);

}  // namespace vsa::dit
