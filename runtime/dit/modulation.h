// What a timestep does to every layer: the embedded timestep, projected, and added to each layer's
// table. In f32 on the host for every device: it is a product with one row. Host-only.
#pragma once

#include <vector>

#include "runtime/dit/weights.h"
#include "runtime/nn/linear.h"

namespace vsa::dit {

/// What a timestep does to a layer; each [width].
struct Modulation {
  std::vector<float> shift1, scale1, gate1;  ///< self-attention; scale1 holds 1 + scale
  std::vector<float> shift2, scale2, gate2;  ///< feed-forward; scale2 holds 1 + scale
};

/// What a timestep does to all layers and to the head.
struct Modulations {
  std::vector<Modulation> layers;
  std::vector<float> head_shift, head_scale;  ///< [width]; head_scale holds 1 + scale
};

class TimestepModulation {
 public:
  /// Copies the weights, each in the type it is stored in.
  explicit TimestepModulation(const WanWeights& weights);

  /// @param timestep  0 to 1000
  /// @param space     for weights that are not stored as f32
  Modulations at(float timestep, nn::WeightSpace& space) const;

 private:
  Modulation of_layer(const std::vector<float>& table, const std::vector<float>& timestep) const;

  int64_t width_ = 0;
  int64_t freq_dim_ = 0;
  nn::Linear in_, out_, projection_;
  std::vector<std::vector<float>> tables_;  // of each layer, [6, width]
  std::vector<float> head_table_;           // [2, width]: shift, scale
};

}  // namespace vsa::dit
