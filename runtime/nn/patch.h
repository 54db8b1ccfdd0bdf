// Between a video [C, F, H, W] and its patches, one row a token. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "vsa/tiling.h"

namespace vsa::nn {

/// Edges of a patch in latent frames, rows, columns.
struct PatchShape {
  int64_t f = 1, h = 2, w = 2;
  int64_t volume() const { return f * h * w; }
};

/// A video in patches: `grid` tokens of `patch` each, `channels` deep.
struct PatchLayout {
  int64_t channels = 0;
  Grid grid;
  PatchShape patch;
  /// Row i is token order[i] of raster order; empty: token i. Must outlive the layout.
  std::span<const int32_t> order{};
  int64_t width() const { return channels * patch.volume(); }
};

/// Patches of rows [begin, end) for the patch embedding: the columns of one row run over
/// (channel, f, h, w), the order of a Conv3d weight.
/// @param video  [channels, F, H, W], raster
/// @param rows   [end - begin, layout.width()]
void patchify(const PatchLayout& layout, const float* video, int64_t begin, int64_t end,
              float* rows);

/// Puts output rows [begin, end) back: columns run over (f, h, w, channel), the order of
/// Wan's output projection, which is not the order that patchify makes.
/// @param rows   [end - begin, layout.width()]
/// @param video  [channels, F, H, W]
void unpatchify(const PatchLayout& layout, const float* rows, int64_t begin, int64_t end,
                float* video);

}  // namespace vsa::nn
