// What LoRAs do to one tensor: the arithmetic. Host-only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/io/safetensors.h"
#include "runtime/nn/weight_change.h"

namespace vsa::dit {

/// One change of a tensor W.
struct LoraStep {
  enum class Kind {
    kProduct,  ///< W += scale * up down
    kAdd,      ///< W += scale * up
    kReplace,  ///< W += scale * (up - W); W = up if scale is 1
  };
  Kind kind = Kind::kProduct;
  io::TensorView up;    ///< kProduct: [out, rank]; else as many elements as W
  io::TensorView down;  ///< kProduct: [rank, elements of W / out]
  double scale = 1.0;
  std::shared_ptr<const io::SafetensorsFile> file;  ///< that the views point into
};

/// Changes made one after the other, in f32. The sums of a product do not depend on the number of
/// threads.
class LoraSteps : public nn::WeightChange {
 public:
  void add(LoraStep step) { steps_.push_back(std::move(step)); }
  void apply(std::span<float> values) const override;

 private:
  std::vector<LoraStep> steps_;
};

}  // namespace vsa::dit
