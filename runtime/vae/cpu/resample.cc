// Between the VAE's resolutions on the CPU, in space and in time. Host-only.
#include <algorithm>
#include <utility>

#include "runtime/nn/parallel.h"
#include "runtime/vae/cpu/causal_conv.h"
#include "runtime/vae/cpu/layer.h"

namespace vsa::vae::cpu {
namespace {

/// Each pixel four times.
/// @param x       first channel of the first pixel: rows [in, in + ...) of a frame
/// @param stride  floats from a pixel to the next
struct DoubleArgs {
  const float* x = nullptr;
  int64_t stride = 0, channels = 0, width = 0;
  int64_t first_row = 0;  ///< of x
  Rows rows;              ///< of the result
  float* y = nullptr;     ///< [rows, 2 * width, channels]
};

void double_edges(const DoubleArgs& args) {
  nn::parallel_rows(args.rows.size(), [&](const nn::RowBlock& block) {
    for (int64_t r = block.begin; r < block.end; ++r) {
      const int64_t row = (args.rows.begin + r) / 2 - args.first_row;
      const float* from = args.x + row * args.width * args.stride;
      float* to = args.y + r * 2 * args.width * args.channels;
      for (int64_t i = 0; i < args.width; ++i, from += args.stride) {
        to = std::copy_n(from, args.channels, to);
        to = std::copy_n(from, args.channels, to);
      }
    }
  });
}

class Upsample : public CpuLayer {
 public:
  Upsample(const Layer& layer, const LayerWeights& weights)
      : in_(layer.in),
        out_(layer.out),
        temporal_(layer.temporal),
        conv_(weights.conv.weight, weights.conv.bias),
        time_conv_(weights.conv2) {}

  void run(const Run& run) const override {
    Workspace& space = run.space;
    // The first frame is not doubled, and the convolution over time does not process it.
    if (!temporal_ || run.first_chunk) {
      for (int64_t f = 0; f < space.frames; ++f) {
        const float* const frame =
            space.x.data() + f * run.shape.in.size() * run.shape.width_in * in_;
        double_frame(run, frame, in_, space.spare.data() + f * floats_out(run));
      }
      std::swap(space.x, space.spare);
      return;
    }
    const int64_t pixels = run.shape.in.size() * run.shape.width_in;
    std::copy_n(space.x.data(), space.frames * pixels * in_,
                time_conv_.input(space.padded, pixels));
    time_conv_.forward({.height = run.shape.in.size(), .width = run.shape.width_in}, space.frames,
                       run.history.conv2, space.padded, space.spare.data());
    space.frames *= 2;
    // The first half of a pixel's channels is the earlier frame.
    for (int64_t f = 0; f < space.frames; ++f) {
      const float* const frame = space.spare.data() + f / 2 * pixels * 2 * in_ + f % 2 * in_;
      double_frame(run, frame, 2 * in_, space.x.data() + f * floats_out(run));
    }
  }

 private:
  static int64_t floats_of(Rows rows, int64_t width, int64_t channels) {
    return rows.size() * width * channels;
  }
  int64_t floats_out(const Run& run) const {
    return floats_of(run.shape.out, run.shape.width_out, out_);
  }

  /// y = the convolution of one frame with doubled edges, which are made in `padded`.
  void double_frame(const Run& run, const float* x, int64_t stride, float* y) const {
    const LayerShape& shape = run.shape;
    const Rows doubled{std::max<int64_t>(0, shape.out.begin - 1),
                       std::min(shape.height_out, shape.out.end + 1)};
    double_edges({.x = x,
                  .stride = stride,
                  .channels = in_,
                  .width = shape.width_in,
                  .first_row = shape.in.begin,
                  .rows = doubled,
                  .y = run.space.padded.data()});
    const Edges edges = edges_3x3(doubled, shape.out, shape.width_out);
    conv_.forward({.frames = 1,
                   .height = edges.height,
                   .width = edges.width,
                   .top = edges.top,
                   .bottom = edges.bottom,
                   .left = edges.left,
                   .right = edges.right},
                  run.space.padded.data(), y);
  }

  int64_t in_, out_;
  bool temporal_;
  nn::Conv conv_;
  CausalConv time_conv_;
};

class Downsample : public CpuLayer {
 public:
  Downsample(const Layer& layer, const LayerWeights& weights)
      : channels_(layer.out),
        temporal_(layer.temporal),
        conv_(weights.conv.weight, weights.conv.bias, {.edges = 2}),
        time_conv_(weights.conv2, 2) {}

  void run(const Run& run) const override {
    Workspace& space = run.space;
    const LayerShape& shape = run.shape;
    const int64_t pixels = shape.out.size() * shape.width_out;
    if (!temporal_) {
      halve_edges(run, space.spare.data());
      std::swap(space.x, space.spare);
      return;
    }
    float* const halved = time_conv_.input(space.padded, pixels);
    halve_edges(run, halved);
    if (run.first_chunk) {  // the first frame stays as it is
      time_conv_.remember(pixels, space.frames, run.history.conv2, space.padded);
      std::copy_n(halved, space.frames * pixels * channels_, space.x.data());
      return;
    }
    time_conv_.forward({.height = shape.out.size(), .width = shape.width_out}, space.frames,
                       run.history.conv2, space.padded, space.x.data());
    space.frames /= 2;
  }

 private:
  /// Zeros are below and to the right alone, where rows and columns are even.
  void halve_edges(const Run& run, float* y) const {
    const LayerShape& shape = run.shape;
    conv_.forward({.frames = run.space.frames,
                   .height = shape.in.size(),
                   .width = shape.width_in,
                   .bottom = 2 * shape.out.end + 1 - shape.in.end,
                   .right = 2 * shape.width_out + 1 - shape.width_in},
                  run.space.x.data(), y);
  }

  int64_t channels_;
  bool temporal_;
  nn::Conv conv_;
  CausalConv time_conv_;
};

}  // namespace

std::unique_ptr<CpuLayer> make_upsample(const Layer& layer, const LayerWeights& weights) {
  return std::make_unique<Upsample>(layer, weights);
}

std::unique_ptr<CpuLayer> make_downsample(const Layer& layer, const LayerWeights& weights) {
  return std::make_unique<Downsample>(layer, weights);
}

}  // namespace vsa::vae::cpu
