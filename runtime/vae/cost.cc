// What the VAE computes, counted rather than measured.
#include "runtime/vae/cost.h"

#include "runtime/vae/layers.h"
#include "runtime/vae/parts.h"

namespace vsa::vae {
namespace {

double product(int64_t in, int64_t out, int64_t taps) {
  return 2.0 * static_cast<double>(in) * static_cast<double>(out) * static_cast<double>(taps);
}

/// FLOPs for one pixel of one frame that the layer makes.
/// @param in_frame  pixels of a frame that it reads
double flops_per_pixel(const Layer& layer, double in_frame, bool doubles_frames) {
  switch (layer.kind) {
    case LayerKind::kPointwise:
      return product(layer.in, layer.out, 1);
    case LayerKind::kConv:
    case LayerKind::kHead:
      return product(layer.in, layer.out, 27);
    case LayerKind::kResidual:
      return product(layer.in, layer.out, 27) + product(layer.out, layer.out, 27) +
             (layer.in == layer.out ? 0.0 : product(layer.in, layer.out, 1));
    case LayerKind::kAttention:
      return product(layer.in, layer.in, 4) + 4.0 * static_cast<double>(layer.in) * in_frame;
    case LayerKind::kUpsample:
      // The convolution over time runs before edges are doubled, on a quarter of the pixels, and
      // makes two frames at once: an eighth for each pixel.
      return product(layer.in, layer.out, 9) +
             (doubles_frames ? product(layer.in, 2 * layer.in, 3) / 8.0 : 0.0);
    case LayerKind::kDownsample:
      return product(layer.in, layer.out, 9);
  }
  return 0.0;
}

}  // namespace

double decode_flops(const VaeConfig& config, int64_t frames, int64_t height, int64_t width) {
  const Network network = decoder_network(config);
  const Part whole = cut_into_parts(network, height, width, 1).front();
  double sum = 0.0;
  const auto chunk = [&](int64_t num_frames, bool first) {
    int64_t made = num_frames;
    for (int64_t i = 0; i < network.num_layers(); ++i) {
      const Layer& layer = network.layer(i);
      const LayerShape& shape = whole.shape(i);
      made = frames_out(layer, made, first);
      const auto pixels = static_cast<double>(made * shape.height_out * shape.width_out);
      sum += pixels * flops_per_pixel(layer, static_cast<double>(shape.height_in * shape.width_in),
                                      layer.temporal && !first);
    }
  };
  chunk(1, true);
  if (frames > 1) {
    const double before = sum;
    chunk(1, false);
    sum = before + (sum - before) * static_cast<double>(frames - 1);
  }
  return sum;
}

}  // namespace vsa::vae
