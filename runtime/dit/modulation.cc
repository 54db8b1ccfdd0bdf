// What a timestep does to every layer. Host-only.
#include "runtime/dit/modulation.h"

#include <span>

#include "runtime/nn/convert.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/timestep.h"

namespace vsa::dit {

TimestepModulation::TimestepModulation(const WanWeights& weights)
    : width_(weights.config.width()),
      freq_dim_(weights.config.freq_dim),
      in_(weights.time_in, nn::Activation::kSilu),
      out_(weights.time_out),
      projection_(weights.time_proj),
      head_table_(nn::values(weights.head_scale_shift)) {
  for (const BlockWeights& block : weights.blocks) {
    tables_.push_back(nn::values(block.scale_shift));
  }
}

Modulation TimestepModulation::of_layer(const std::vector<float>& table,
                                        const std::vector<float>& timestep) const {
  const auto width = static_cast<size_t>(width_);
  const auto row = [&](size_t n, float offset) {
    std::vector<float> sum(width);
    for (size_t i = 0; i < width; ++i) {
      sum[i] = table[n * width + i] + timestep[n * width + i] + offset;
    }
    return sum;
  };
  return {.shift1 = row(0, 0.0F),
          .scale1 = row(1, 1.0F),
          .gate1 = row(2, 0.0F),
          .shift2 = row(3, 0.0F),
          .scale2 = row(4, 1.0F),
          .gate2 = row(5, 0.0F)};
}

Modulations TimestepModulation::at(float timestep, nn::WeightSpace& space) const {
  const auto width = static_cast<size_t>(width_);
  std::vector<float> frequencies(static_cast<size_t>(freq_dim_));
  std::vector<float> hidden(width);
  std::vector<float> time(width);
  std::vector<float> projected(6 * width);
  const auto multiply = [&](const nn::Linear& layer, std::span<const float> x, std::span<float> y) {
    space.clear();
    layer.ready(space).forward(x.data(), 1, y.data());
  };
  nn::timestep_embedding(timestep, frequencies);
  multiply(in_, frequencies, hidden);
  multiply(out_, hidden, time);
  hidden = time;
  nn::silu(hidden);
  multiply(projection_, hidden, projected);

  Modulations all;
  for (const std::vector<float>& table : tables_) all.layers.push_back(of_layer(table, projected));
  // The head is modulated by the embedded timestep itself, not by its projection.
  const auto middle = head_table_.begin() + static_cast<std::ptrdiff_t>(width);
  all.head_shift.assign(head_table_.begin(), middle);
  all.head_scale.assign(middle, head_table_.end());
  for (size_t i = 0; i < width; ++i) {
    all.head_shift[i] += time[i];
    all.head_scale[i] += time[i] + 1.0F;
  }
  return all;
}

}  // namespace vsa::dit
