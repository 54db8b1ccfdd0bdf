// The layers of the VAE on the CPU: products, convolutions and residual blocks. Host-only.
#include "runtime/vae/cpu/layer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/nn/convert.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/pixel_norm.h"
#include "runtime/vae/cpu/causal_conv.h"

namespace vsa::vae::cpu {
namespace {

class Pointwise : public CpuLayer {
 public:
  Pointwise(const Layer& /*layer*/, const LayerWeights& weights) : linear_(weights.linear) {}

  void run(const Run& run) const override {
    Workspace& space = run.space;
    space.space.clear();
    linear_.ready(space.space)
        .forward(space.x.data(), space.frames * run.shape.in.size() * run.shape.width_in,
                 space.spare.data());
    std::swap(space.x, space.spare);
  }

 private:
  nn::Linear linear_;
};

/// With a norm: kHead, without: kConv.
class Convolution : public CpuLayer {
 public:
  Convolution(const Layer& layer, const LayerWeights& weights)
      : channels_(layer.in), norm_(nn::values(weights.norm)), conv_(weights.conv) {}

  void run(const Run& run) const override {
    Workspace& space = run.space;
    const int64_t pixels = run.shape.in.size() * run.shape.width_in;
    float* const input = conv_.input(space.padded, pixels);
    if (norm_.empty()) {
      std::copy_n(space.x.data(), space.frames * pixels * channels_, input);
    } else {
      norm_silu({.x = space.x.data(), .pixels = space.frames * pixels, .gamma = norm_, .y = input});
    }
    conv_.forward(edges_3x3(run.shape.in, run.shape.out, run.shape.width_in), space.frames,
                  run.history.conv, space.padded, space.spare.data());
    std::swap(space.x, space.spare);
  }

 private:
  int64_t channels_;
  std::vector<float> norm_;
  CausalConv conv_;
};

/// Leaves the rows `out` of x's rows `in`.
void crop(Workspace& space, Rows in, Rows out, int64_t row_floats) {
  if (in == out) return;
  for (int64_t f = 0; f < space.frames; ++f) {
    const float* from = space.x.data() + (f * in.size() + out.begin - in.begin) * row_floats;
    std::copy_n(from, out.size() * row_floats, space.x.data() + f * out.size() * row_floats);
  }
}

class Residual : public CpuLayer {
 public:
  Residual(const Layer& layer, const LayerWeights& weights)
      : in_(layer.in),
        norm1_(nn::values(weights.norm)),
        norm2_(nn::values(weights.norm2)),
        conv1_(weights.conv),
        conv2_(weights.conv2),
        changes_channels_(!weights.linear.empty()),
        shortcut_(weights.linear) {}

  void run(const Run& run) const override {
    Workspace& space = run.space;
    const auto& [in, out] = std::pair(run.shape.in, run.shape.out);
    const int64_t width = run.shape.width_in;
    const Rows middle = {std::max(in.begin, out.begin - 1), std::min(in.end, out.end + 1)};
    const int64_t pixels_in = in.size() * width;
    norm_silu({.x = space.x.data(),
               .pixels = space.frames * pixels_in,
               .gamma = norm1_,
               .y = conv1_.input(space.padded, pixels_in)});
    // From here on x is what the block adds to, and `spare` is free for what it adds.
    crop(space, in, out, width * in_);
    if (changes_channels_) {
      space.space.clear();
      shortcut_.ready(space.space)
          .forward(space.x.data(), space.frames * out.size() * width, space.spare.data());
      std::swap(space.x, space.spare);
    }
    conv1_.forward(edges_3x3(in, middle, width), space.frames, run.history.conv, space.padded,
                   space.spare.data());
    const int64_t pixels_middle = middle.size() * width;
    norm_silu({.x = space.spare.data(),
               .pixels = space.frames * pixels_middle,
               .gamma = norm2_,
               .y = conv2_.input(space.padded, pixels_middle)});
    conv2_.forward(edges_3x3(middle, out, width), space.frames, run.history.conv2, space.padded,
                   space.x.data(), nn::Into::kAdd);
  }

 private:
  int64_t in_;
  std::vector<float> norm1_, norm2_;
  CausalConv conv1_, conv2_;
  bool changes_channels_;
  nn::Linear shortcut_;
};

void norm_with(void (*norm_pixels)(const nn::PixelNormArgs&), const NormArgs& args) {
  const int64_t channels = std::ssize(args.gamma);
  nn::parallel_rows(args.pixels, [&](const nn::RowBlock& block) {
    norm_pixels({.x = args.x + block.begin * channels,
                 .pixels = block.size(),
                 .channels = channels,
                 .gamma = args.gamma.data(),
                 .y = args.y + block.begin * channels});
  });
}

}  // namespace

void norm(const NormArgs& args) { norm_with(nn::pixel_norm, args); }
void norm_silu(const NormArgs& args) { norm_with(nn::pixel_norm_silu, args); }

std::unique_ptr<CpuLayer> make_layer(const Layer& layer, const LayerWeights& weights) {
  switch (layer.kind) {
    case LayerKind::kPointwise:
      return std::make_unique<Pointwise>(layer, weights);
    case LayerKind::kConv:
    case LayerKind::kHead:
      return std::make_unique<Convolution>(layer, weights);
    case LayerKind::kResidual:
      return std::make_unique<Residual>(layer, weights);
    case LayerKind::kAttention:
      return make_attention(layer, weights);
    case LayerKind::kUpsample:
      return make_upsample(layer, weights);
    case LayerKind::kDownsample:
      return make_downsample(layer, weights);
  }
  return nullptr;
}

}  // namespace vsa::vae::cpu
