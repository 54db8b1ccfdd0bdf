// Cuts the tiles of a plan into blocks of at most 64 tokens, and takes their memory. Host-only.
#include "src/cuda/plan/plan.h"

#include <fmt/format.h>

#include "src/cuda/plan/schedule.h"

namespace vsa::cuda {
namespace {

int32_t smallest_factor(int32_t n) {
  for (int32_t factor = 2; factor * factor <= n; ++factor) {
    if (n % factor == 0) return factor;
  }
  return n;
}

/// Sets the edges of the blocks of a tile: divides the tile along its slowest axis until at most 64
/// tokens are left, so that the concatenation of its blocks is the tile in raster order.
void cut(PlanShape& shape) {
  int32_t* edge = shape.block_edge;
  while (edge[0] * edge[1] * edge[2] > kBlockTokens) {
    int32_t& axis = edge[0] > 1 ? edge[0] : edge[1] > 1 ? edge[1] : edge[2];
    const int32_t factor = smallest_factor(axis);
    axis /= factor;
    shape.blocks_per_tile *= factor;
  }
}

}  // namespace

Result<PlanImage> plan_image(std::string_view operation, const TilePlan& plan) {
  PlanImage image;
  PlanShape& shape = image.shape;
  const Grid grid = plan.video_grid();
  const bool has_cuboids = grid.num_tokens() != 0;
  const bool is_scattered = !has_cuboids && !plan.tiles_are_runs();
  if (is_scattered) image.tokens = plan.tokens();
  const int64_t num_runs = has_cuboids ? plan.num_prefix_tiles() : plan.num_tiles();
  shape.tile_tokens = static_cast<int32_t>(plan.tile_tokens());
  if (!has_cuboids) {
    shape.blocks_per_tile = (shape.tile_tokens + kBlockTokens - 1) / kBlockTokens;
  } else {
    const TileShape tile = plan.video_tile();
    const int64_t grids[3] = {grid.f, grid.h, grid.w};
    const int64_t edges[3] = {tile.f, tile.h, tile.w};
    for (int axis = 0; axis < 3; ++axis) {
      shape.grid[axis] = static_cast<int32_t>(grids[axis]);
      shape.tile_edge[axis] = static_cast<int32_t>(edges[axis]);
      shape.block_edge[axis] = shape.tile_edge[axis];
      shape.tiles[axis] = static_cast<int32_t>((grids[axis] + edges[axis] - 1) / edges[axis]);
    }
    shape.base = static_cast<int32_t>(plan.seq_len() - grid.num_tokens());
    cut(shape);
  }
  if (plan.num_tiles() * shape.blocks_per_tile >= ScheduleEntry::kMaxBlocks) {
    return unsupported(
        fmt::format("[{}] plan: expected fewer than 2^28 blocks of 64 tokens on the "
                    "cuda backend, got {} tiles of {} blocks",
                    operation, plan.num_tiles(), shape.blocks_per_tile));
  }
  shape.num_tiles = static_cast<int32_t>(plan.num_tiles());
  shape.num_runs = static_cast<int32_t>(num_runs);
  shape.runs_are_padded = plan.seq_len() > plan.num_valid_tokens() ? 1 : 0;
  shape.run_rows = (shape.tile_tokens + shape.blocks_per_tile - 1) / shape.blocks_per_tile;
  int32_t slots = 0;  // before the tile, in compact order
  for (int64_t t = 0; t < num_runs; ++t) {
    const int32_t len = plan.tile_len(t);
    // An empty tile has no first token, but in tile order it has padding that is written.
    const int32_t first = is_scattered                 ? slots
                          : shape.runs_are_padded != 0 ? static_cast<int32_t>(t) * shape.tile_tokens
                          : len > 0                    ? plan.tokens(t).front()
                                                       : 0;
    image.runs.push_back({.first = first, .len = len});
    slots += len;
  }
  return image;
}

PlanTables::PlanTables(std::string_view operation, Carver& workspace, const TilePlan* q_plan,
                       const TilePlan* kv_plan) {
  same_ = kv_plan == nullptr || kv_plan == q_plan;
  num_tables_ = same_ ? 1 : 2;
  const TilePlan* plans[2] = {q_plan, kv_plan};
  for (int i = 0; i < num_tables_; ++i) {
    Result<PlanImage> image = plan_image(operation, *plans[i]);
    if (!image.ok()) {
      status_ = image.status();
      return;
    }
    images_[i] = std::move(*image);
    PlanTable& table = tables_[i];
    table.shape = images_[i].shape;
    table.blocks = workspace.take<Block>(table.shape.num_blocks());
    table.tile_len = workspace.take<int32_t>(table.shape.num_tiles);
    runs_[i] = workspace.take<Run>(table.shape.num_runs);
    const auto num_tokens = static_cast<int64_t>(images_[i].tokens.size());
    if (num_tokens > 0) {
      table.is_scattered = true;
      tokens_[i] = workspace.take<int32_t>(num_tokens);
      table.shape.tokens = tokens_[i];
    }
  }
}

}  // namespace vsa::cuda
