// The layers of the decoder on a device. Host-only.
#pragma once

#include "runtime/vae/device/work.h"
#include "runtime/vae/layers.h"
#include "runtime/vae/parts.h"
#include "vsa/status.h"

namespace vsa::vae::device {

/// The weights of a layer, of which each kind has some (LayerWeights).
struct DeviceLayer {
  Array norm, norm2;  ///< f32
  DeviceConv conv, conv2;
  DeviceLinear q, k, v, linear;
};

/// Where the frames are that a layer's convolutions over time keep in one part; null at first.
struct LayerHistory {
  void* conv = nullptr;
  void* conv2 = nullptr;
};

/// One run of one layer.
struct LayerRun {
  const Layer& layer;
  const DeviceLayer& weights;  ///< empty where work only counts
  const LayerShape& shape;
  LayerHistory& kept;
  History& history;
  bool first_chunk = false;
};
/// The value of `work` becomes the layer of it.
Status run_layer(Work& work, const LayerRun& run);

/// `linear` and the passes take channels in multiples of this; the 3 of the last convolution are
/// computed as so many, and handed out as 3.
inline constexpr int64_t kChannelStep = 8;
constexpr int64_t padded_channels(int64_t channels) {
  return (channels + kChannelStep - 1) / kChannelStep * kChannelStep;
}
/// Whether the decoder of this network can run on a device. @return Unsupported
Status check_network(const Network& network);

/// The kernel of a layer's convolutions; `conv2` as in LayerWeights.
ConvShape conv_shape(const Layer& layer);
ConvShape conv2_shape(const Layer& layer);

}  // namespace vsa::vae::device
