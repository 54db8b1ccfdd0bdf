// Between a video [C, F, H, W] and its patches, one row a token. Host-only.
#include "runtime/nn/patch.h"

namespace vsa::nn {
namespace {

/// Calls fn(column of patchify, column of unpatchify, index into the video) for the elements of the
/// token in that row.
template <class Fn>
void for_each_element(const PatchLayout& layout, int64_t row, const Fn& fn) {
  const auto& [channels, grid, patch, order] = layout;
  const int64_t token = order.empty() ? row : order[static_cast<size_t>(row)];
  const int64_t height = grid.h * patch.h;
  const int64_t width = grid.w * patch.w;
  const int64_t f0 = token / (grid.h * grid.w) * patch.f;
  const int64_t h0 = token / grid.w % grid.h * patch.h;
  const int64_t w0 = token % grid.w * patch.w;
  int64_t column = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t f = 0; f < patch.f; ++f) {
      for (int64_t h = 0; h < patch.h; ++h) {
        for (int64_t w = 0; w < patch.w; ++w, ++column) {
          const int64_t frame = c * grid.f * patch.f + f0 + f;
          fn(column, ((f * patch.h + h) * patch.w + w) * channels + c,
             (frame * height + h0 + h) * width + w0 + w);
        }
      }
    }
  }
}

}  // namespace

void patchify(const PatchLayout& layout, const float* video, int64_t begin, int64_t end,
              float* rows) {
  for (int64_t row = begin; row < end; ++row, rows += layout.width()) {
    for_each_element(layout, row,
                     [&](int64_t column, int64_t, int64_t at) { rows[column] = video[at]; });
  }
}

void unpatchify(const PatchLayout& layout, const float* rows, int64_t begin, int64_t end,
                float* video) {
  for (int64_t row = begin; row < end; ++row, rows += layout.width()) {
    for_each_element(layout, row,
                     [&](int64_t, int64_t column, int64_t at) { video[at] = rows[column]; });
  }
}

}  // namespace vsa::nn
