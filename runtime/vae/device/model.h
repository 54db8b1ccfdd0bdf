// The VAE's decoder on a device: its weights there, as its steps multiply with them. Host-only.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/memory.h"
#include "runtime/vae/device/layers.h"
#include "runtime/vae/steps.h"
#include "runtime/vae/weights.h"

namespace vsa::vae::device {

/// Weights and activations are of the memory's token dtype, sums f32.
class DeviceModel : public Model {
 public:
  /// @return OutOfMemory | DeviceError | Unsupported (an encoder, or channels in no multiples of 8)
  static Result<std::unique_ptr<Model>> load(const VaeWeights& weights,
                                             std::shared_ptr<Memory> memory);

  const VaeConfig& config() const override { return config_; }
  const Network& network() const override { return network_; }
  bool enqueues() const override { return true; }
  Result<std::unique_ptr<Steps>> make_steps(std::vector<Part> parts, int64_t num_frames) override;

 private:
  friend class DeviceSteps;
  DeviceModel(const VaeWeights& weights, std::shared_ptr<Memory> memory)
      : config_(weights.config), network_(weights.network), memory_(std::move(memory)) {}
  Result<DeviceLayer> load_layer(const Layer& layer, const LayerWeights& weights) const;

  VaeConfig config_;
  Network network_;
  std::shared_ptr<Memory> memory_;
  std::vector<DeviceLayer> layers_;  // one for each of the network
};

}  // namespace vsa::vae::device
