// How a network is cut into horizontal stripes that give the values of the whole. Host-only.
#include "runtime/vae/parts.h"

#include <algorithm>

namespace vsa::vae {
namespace {

int64_t extent_out(const Layer& layer, int64_t extent) {
  if (layer.kind == LayerKind::kUpsample) return 2 * extent;
  return layer.kind == LayerKind::kDownsample ? extent / 2 : extent;
}

/// Shapes of all layers without rows.
std::vector<LayerShape> whole_shapes(const Network& network, int64_t height, int64_t width) {
  std::vector<LayerShape> shapes;
  for (const Layer& layer : network.layers) {
    LayerShape shape{.height_in = height,
                     .height_out = extent_out(layer, height),
                     .width_in = width,
                     .width_out = extent_out(layer, width),
                     .in = {},
                     .out = {}};
    height = shape.height_out;
    width = shape.width_out;
    shapes.push_back(shape);
  }
  return shapes;
}

/// The layers [begin, end) that make the rows `out`.
Part make_part(const Network& network, const std::vector<LayerShape>& whole, int64_t begin,
               int64_t end, Rows out) {
  Part part{.first_layer = begin, .shapes = {whole.begin() + begin, whole.begin() + end}};
  for (int64_t i = part.num_layers() - 1; i >= 0; --i) {
    LayerShape& shape = part.shapes[static_cast<size_t>(i)];
    shape.out = out;
    shape.in = input_rows(network.layer(begin + i), out, shape.height_in);
    out = shape.in;
  }
  return part;
}

}  // namespace

Rows input_rows(const Layer& layer, Rows out, int64_t height_in) {
  const auto widened = [&](int64_t by) {
    return Rows{std::max<int64_t>(0, out.begin - by), std::min(height_in, out.end + by)};
  };
  switch (layer.kind) {
    case LayerKind::kPointwise:
    case LayerKind::kAttention:
      return out;
    case LayerKind::kConv:
    case LayerKind::kHead:
      return widened(1);
    case LayerKind::kResidual:
      return widened(2);
    case LayerKind::kUpsample:  // the convolution reads one row more on either side
      return {std::max<int64_t>(0, out.begin - 1) / 2,
              (std::min(2 * height_in, out.end + 1) + 1) / 2};
    case LayerKind::kDownsample:  // rows 2r, 2r + 1 and 2r + 2
      return {2 * out.begin, std::min(height_in, 2 * out.end + 1)};
  }
  return out;
}

std::vector<Part> cut_into_parts(const Network& network, int64_t height, int64_t width,
                                 int64_t stripes) {
  const std::vector<LayerShape> whole = whole_shapes(network, height, width);
  const int64_t num_layers = network.num_layers();
  const auto all_rows = [&](int64_t layer) {
    return Rows{0, whole[static_cast<size_t>(layer)].height_out};
  };
  if (stripes == 1) {
    return {make_part(network, whole, 0, num_layers, all_rows(num_layers - 1))};
  }
  const bool whole_first = network.whole_begin == 0;
  const int64_t begin = whole_first ? network.whole_end : 0;
  const int64_t end = whole_first ? num_layers : network.whole_begin;
  const Part at_once = make_part(network, whole, network.whole_begin, network.whole_end,
                                 all_rows(network.whole_end - 1));
  std::vector<Part> parts;
  if (whole_first) parts.push_back(at_once);
  const int64_t height_out = whole[static_cast<size_t>(end - 1)].height_out;
  const int64_t latent_rows = std::min(height, height_out);
  for (int64_t s = 0; s < stripes; ++s) {
    const int64_t rows_each = height_out / latent_rows;
    parts.push_back(make_part(
        network, whole, begin, end,
        {s * latent_rows / stripes * rows_each, (s + 1) * latent_rows / stripes * rows_each}));
  }
  if (!whole_first) parts.push_back(at_once);
  return parts;
}

}  // namespace vsa::vae
