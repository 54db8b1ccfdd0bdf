// The weights of Wan2.1's VAE by name, for any device; nothing here computes. Host-only.
#pragma once

#include <string>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/nn/weight.h"
#include "runtime/nn/weight_finder.h"
#include "runtime/vae/config.h"
#include "runtime/vae/layers.h"
#include "vsa/status.h"

namespace vsa::vae {

/// A convolution over frames, rows and columns, or over rows and columns.
struct ConvWeights {
  nn::Weight weight;  ///< [out, in, frames, rows, columns] or [out, in, rows, columns]
  nn::Weight bias;    ///< [out]

  bool empty() const { return weight.empty(); }
};

/// What a layer's kind has; the rest is empty.
struct LayerWeights {
  nn::Weight norm;   ///< gamma, [in]: kResidual (the first), kAttention, kHead
  nn::Weight norm2;  ///< gamma, [out]: kResidual
  /// kConv, kHead; the first of kResidual; over rows and columns of kUpsample and kDownsample.
  ConvWeights conv;
  /// The second of kResidual; over time of kUpsample and kDownsample, if temporal.
  ConvWeights conv2;
  nn::LinearWeights q, k, v;  ///< kAttention
  /// kPointwise; kAttention: the projection behind it; kResidual: the shortcut where channels
  /// change.
  nn::LinearWeights linear;
};

/// The decoder or the encoder.
struct VaeWeights {
  VaeConfig config;
  Network network;
  std::vector<LayerWeights> layers;  ///< one for each of the network
};

/// Which half of a VAE; a file may hold one alone.
enum class Half { kDecoder, kEncoder };

struct LoadReport {
  nn::LoadSummary summary;  ///< `unused` lists nothing of the other half
  std::string naming;
};

/// @param checkpoint  must outlive the weights
/// @return IoError: tensors missing, of a wrong shape or type, or names of no known naming |
///         Unsupported: Wan2.2's VAE
Result<VaeWeights> find_weights(const VaeConfig& config, Half half,
                                const io::Checkpoint& checkpoint, LoadReport& report);

}  // namespace vsa::vae
