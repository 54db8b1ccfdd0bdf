// Chooses tiles, and gathers their tokens, rows and lists. Host-only.
#include "cli/common/sampled_tiles.h"

#include <algorithm>
#include <cstring>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

/// Copies row `from` of x to row `to` of y, for all batch items and heads.
void copy_row(const ConstTensor& x, int64_t from, const Tensor& y, int64_t to) {
  const int64_t width = size_bytes(x.dtype);
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t h = 0; h < x.shape[1]; ++h) {
      const int64_t source = b * x.stride[0] + h * x.stride[1] + from * x.stride[2];
      const int64_t target = b * y.stride[0] + h * y.stride[1] + to * y.stride[2];
      std::memcpy(static_cast<std::byte*>(y.data) + target * width,
                  static_cast<const std::byte*>(x.data) + source * width,
                  static_cast<size_t>(x.shape[3] * width));
    }
  }
}

OwnedTensor with_rows(const ConstTensor& x, int64_t rows) {
  return OwnedTensor(
      x.dtype,
      {.batch = x.shape[0], .num_heads = x.shape[1], .seq_len = rows, .head_dim = x.shape[3]},
      Layout::kBhsd);
}

}  // namespace

SampledTiles sample_tiles(const TilePlan& plan, int64_t count) {
  const int64_t all = plan.num_tiles();
  count = std::clamp<int64_t>(count, 1, all);
  std::vector<int64_t> tiles;
  std::vector<int32_t> lens;
  for (int64_t i = 0; i < count; ++i) {
    tiles.push_back(count == 1 ? 0 : i * (all - 1) / (count - 1));
    lens.push_back(plan.tile_len(tiles.back()));
  }
  return {.tiles = std::move(tiles), .plan = take(TilePlan::tiled(lens, plan.tile_tokens()))};
}

OwnedTensor gather_tokens(const ConstTensor& x, const TilePlan& plan, const SampledTiles& sample) {
  OwnedTensor gathered = with_rows(x, sample.plan.seq_len());
  for (size_t i = 0; i < sample.tiles.size(); ++i) {
    int64_t to = static_cast<int64_t>(i) * plan.tile_tokens();
    for (const int32_t from : plan.tokens(sample.tiles[i])) {
      copy_row(x, from, gathered.view(), to++);
    }
  }
  return gathered;
}

OwnedTensor gather_rows(const ConstTensor& x, const SampledTiles& sample) {
  OwnedTensor gathered = with_rows(x, std::ssize(sample.tiles));
  for (size_t i = 0; i < sample.tiles.size(); ++i) {
    copy_row(x, sample.tiles[i], gathered.view(), static_cast<int64_t>(i));
  }
  return gathered;
}

LutBuffer gather_rows(const ConstLut& lut, const SampledTiles& sample) {
  LutDims dims = lut.dims;
  dims.num_q_tiles = std::ssize(sample.tiles);
  LutBuffer gathered(dims);
  const Lut to = gathered.view();
  int64_t row = 0;
  for (int64_t bh = 0; bh < dims.batch * dims.num_heads; ++bh) {
    for (const int64_t tile : sample.tiles) {
      const int64_t from = bh * lut.dims.num_q_tiles + tile;
      std::copy_n(lut.index + from * dims.pitch, dims.pitch, to.index + row * dims.pitch);
      to.count[row++] = lut.count[from];
    }
  }
  return gathered;
}

LutBuffer restrict_columns(const ConstLut& lut, const SampledTiles& sample) {
  LutDims dims = lut.dims;
  dims.pitch = std::ssize(sample.tiles);
  LutBuffer restricted(dims);
  const Lut to = restricted.view();
  for (int64_t row = 0; row < dims.batch * dims.num_heads * dims.num_q_tiles; ++row) {
    const int32_t* kept = lut.index + row * lut.dims.pitch;
    for (int64_t i = 0; i < dims.pitch; ++i) {
      const auto tile = static_cast<int32_t>(sample.tiles[static_cast<size_t>(i)]);
      if (!std::binary_search(kept, kept + lut.count[row], tile)) continue;
      to.index[row * dims.pitch + to.count[row]++] = static_cast<int32_t>(i);
    }
  }
  return restricted;
}

}  // namespace vsa::cli
