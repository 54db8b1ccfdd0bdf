// How a network is cut into horizontal stripes that give the values of the whole. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/vae/layers.h"

namespace vsa::vae {

/// Rows [begin, end) of a frame.
struct Rows {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Rows&) const = default;
};

/// What one layer of a part reads and makes. Rows outside the frame are zeros to a convolution.
struct LayerShape {
  int64_t height_in = 0, height_out = 0;  ///< of the whole frame
  int64_t width_in = 0, width_out = 0;
  Rows in, out;  ///< `in` is what `out` depends on, no more
};

/// Consecutive layers over one range of rows. A layer makes the rows that the next one reads.
struct Part {
  int64_t first_layer = 0;
  std::vector<LayerShape> shapes;  ///< one for each layer

  int64_t num_layers() const { return std::ssize(shapes); }
  const LayerShape& shape(int64_t i) const { return shapes[static_cast<size_t>(i)]; }
};

/// Rows of a layer's input that its output rows depend on.
/// @param height_in  of the whole frame
Rows input_rows(const Layer& layer, Rows out, int64_t height_in);

/// A network over frames of one size: the whole frames as one part and the local layers as
/// `stripes`, in the order they run; one part of all layers if stripes is 1. Stripes differ by at
/// most one row of latents, and every stripe computes again the rows beyond its edges that its own
/// depend on: at most 13 of the latents' rows at the first layer, 1 at the last.
/// @param height, width  of the network's input
/// @param stripes        1 to the number of the latents' rows
std::vector<Part> cut_into_parts(const Network& network, int64_t height, int64_t width,
                                 int64_t stripes);

}  // namespace vsa::vae
