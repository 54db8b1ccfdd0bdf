// The attention in the middle of the VAE on the CPU: every pixel of a frame to all others.
// Host-only.
#include <cmath>
#include <vector>

#include "runtime/nn/convert.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/softmax.h"
#include "runtime/vae/cpu/layer.h"

namespace vsa::vae::cpu {
namespace {

/// Numbers that were just computed, as the weight of a product: y = x W^T.
nn::Linear product_with(const float* rows, nn::LinearDims dims) {
  const auto bytes = std::as_bytes(std::span(rows, static_cast<size_t>(dims.in * dims.out)));
  return nn::Linear({.dims = dims,
                     .weight = {.name = {}, .shape = {dims.out, dims.in}, .bytes = bytes},
                     .bias = {}},
                    nn::Activation::kNone, nn::Keep::kMapped);
}

void transpose(const float* x, int64_t rows, int64_t columns, float* y) {
  nn::parallel_rows(columns, [&](const nn::RowBlock& block) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = block.begin; c < block.end; ++c) y[c * rows + r] = x[r * columns + c];
    }
  });
}

class Attention : public CpuLayer {
 public:
  Attention(const Layer& layer, const LayerWeights& weights)
      : channels_(layer.in),
        norm_(nn::values(weights.norm)),
        q_(weights.q),
        k_(weights.k),
        v_(weights.v),
        out_(weights.linear) {}

  void run(const Run& run) const override {
    const int64_t pixels = run.shape.in.size() * run.shape.width_in;
    for (int64_t f = 0; f < run.space.frames; ++f) {
      run_frame(run.space.x.data() + f * pixels * channels_, pixels, run.space);
    }
  }

 private:
  /// What one thread needs for a block of rows.
  struct Scratch {
    nn::Buffer rows, rows2, scores;
  };

  void run_frame(float* x, int64_t pixels, Workspace& space) const {
    float* const normed = space.padded.data();
    norm({.x = x, .pixels = pixels, .gamma = norm_, .y = normed});
    nn::Buffer keys(pixels * channels_);
    nn::Buffer values(pixels * channels_);  // transposed
    space.space.clear();
    v_.ready(space.space).forward(normed, pixels, space.spare.data());
    transpose(space.spare.data(), pixels, channels_, values.data());
    k_.ready(space.space).forward(normed, pixels, keys.data());
    const nn::Linear to_scores = product_with(keys.data(), {.in = channels_, .out = pixels});
    const nn::Linear to_values = product_with(values.data(), {.in = pixels, .out = channels_});
    const nn::ReadyLinear query = q_.ready(space.space);
    const nn::ReadyLinear scores_of = to_scores.ready(space.space);
    const nn::ReadyLinear values_of = to_values.ready(space.space);
    const nn::ReadyLinear out = out_.ready(space.space);
    const float scale = 1.0F / std::sqrt(static_cast<float>(channels_));
    std::vector<Scratch> scratch(static_cast<size_t>(nn::num_threads()));
    nn::parallel_rows(pixels, [&](const nn::RowBlock& block) {
      auto& [rows, rows2, scores] = scratch[static_cast<size_t>(block.thread)];
      if (scores.size() == 0) {
        rows = nn::Buffer(nn::kRowBlock * channels_);
        rows2 = nn::Buffer(nn::kRowBlock * channels_);
        scores = nn::Buffer(nn::kRowBlock * pixels);
      }
      const int64_t count = block.size();
      query.forward_block(normed + block.begin * channels_, count, rows.data());
      scores_of.forward_block(rows.data(), count, scores.data());
      nn::softmax_rows(scores.data(), count, pixels, scale);
      values_of.forward_block(scores.data(), count, rows.data());
      out.forward_block(rows.data(), count, rows2.data());
      const auto size = static_cast<size_t>(count * channels_);
      nn::add({x + block.begin * channels_, size}, {rows2.data(), size});
    });
  }

  int64_t channels_;
  std::vector<float> norm_;
  nn::Linear q_, k_, v_, out_;
};

}  // namespace

std::unique_ptr<CpuLayer> make_attention(const Layer& layer, const LayerWeights& weights) {
  return std::make_unique<Attention>(layer, weights);
}

}  // namespace vsa::vae::cpu
