// Blocks: the groups of at most 64 tokens that kernels process, and where their tokens lie in the
// sequence. Host and device; it needs no CUDA header, so that tests run it on the host.
//
// A tile is cut into blocks_per_tile blocks along its slowest axes, so that the concatenation of
// its blocks is the tile in raster order. A block is either a cuboid of the video grid, cut off
// where the grid ends, or a run of consecutive positions (prefix segments, tile order).
//
// Tiles of any other tokens (a curve through a sequence in raster order) are runs, too: of
// positions in compact order, where tile follows tile without padding. A table has the position in
// the sequence for each. What reads whole blocks (TMA) reads a copy in compact order, everything
// else looks positions up.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define VSA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define VSA_HOST_DEVICE inline
#endif

namespace vsa::cuda {

inline constexpr int kBlockTokens = 64;  // rows of one wgmma

/// A block: its first token, and its extents packed so that it is one 16-byte load.
struct alignas(16) Block {
  int32_t w, h, f;  ///< first token in the grid; a run has its position in w, and 0 in h and f
  uint32_t bits;

  /// A block without rows.
  VSA_HOST_DEVICE static Block empty() { return {0, 0, 0, pack(0, 0, kBlockTokens, 1, kRun)}; }

  static constexpr uint32_t kRun = 8;  ///< kind of a run; 0 to 7: cuboids, see `kind`

  VSA_HOST_DEVICE static uint32_t pack(uint32_t len, uint32_t rows, uint32_t nw, uint32_t nh,
                                       uint32_t kind) {
    return len | rows << 7 | nw << 14 | nh << 21 | kind << 28;
  }
  /// Valid tokens, 0 to 64.
  VSA_HOST_DEVICE int len() const { return static_cast<int>(bits & 127U); }
  /// Rows of an output that are written: len, or more if padding rows follow that become 0.
  VSA_HOST_DEVICE int rows() const { return static_cast<int>(bits >> 7 & 127U); }
  /// Extents along w and h.
  VSA_HOST_DEVICE int nw() const { return static_cast<int>(bits >> 14 & 127U); }
  VSA_HOST_DEVICE int nh() const { return static_cast<int>(bits >> 21 & 127U); }
  /// kRun, or along which axes the end of the grid cuts the cuboid off: bit 0 w, bit 1 h, bit 2 f.
  VSA_HOST_DEVICE uint32_t kind() const { return bits >> 28; }
};

/// A tile that is a run of consecutive positions, of the sequence or of compact order.
struct Run {
  int32_t first = 0;
  int32_t len = 0;
};

/// A tile plan as kernels see it. Tiles 0 to num_runs - 1 are runs, the others cuboids in raster
/// order over the tile grid.
struct PlanShape {
  int32_t num_tiles = 0;
  int32_t num_runs = 0;
  int32_t tile_tokens = 0;
  int32_t blocks_per_tile = 1;
  int32_t run_rows = 0;               ///< positions of a run in one block
  int32_t runs_are_padded = 0;        ///< 1 in tile order: padding follows the tokens of a run
  int32_t base = 0;                   ///< position of the video's first token
  int32_t grid[3] = {0, 0, 0};        ///< f, h, w in tokens
  int32_t tiles[3] = {0, 0, 0};       ///< f, h, w in tiles
  int32_t tile_edge[3] = {0, 0, 0};   ///< f, h, w in tokens
  int32_t block_edge[3] = {0, 0, 0};  ///< f, h, w in tokens; divides tile_edge
  /// The position in the sequence for each position of compact order, in the memory of whoever
  /// reads it. Null: runs are of positions in the sequence.
  const int32_t* tokens = nullptr;

  VSA_HOST_DEVICE int32_t num_blocks() const { return num_tiles * blocks_per_tile; }
};

VSA_HOST_DEVICE int32_t clamp_to(int32_t x, int32_t most) {
  return x < 0 ? 0 : (x < most ? x : most);
}

/// Block s of the tile; `run` is read only if the tile is a run.
VSA_HOST_DEVICE Block make_block(const PlanShape& plan, int32_t tile, int32_t s, const Run& run) {
  Block block;
  if (tile < plan.num_runs) {
    const int32_t done = s * plan.run_rows;
    const int32_t len = clamp_to(run.len - done, plan.run_rows);
    const int32_t rows =
        plan.runs_are_padded != 0 ? clamp_to(plan.tile_tokens - done, plan.run_rows) : len;
    block.w = run.first + done;
    block.h = 0;
    block.f = 0;
    block.bits = Block::pack(static_cast<uint32_t>(len), static_cast<uint32_t>(rows), kBlockTokens,
                             1, Block::kRun);
    return block;
  }
  int32_t tile_idx = tile - plan.num_runs;
  int32_t first[3];
  uint32_t n[3];
  uint32_t kind = 0;
  for (int axis = 2; axis >= 0; --axis) {
    const int32_t per_tile = plan.tile_edge[axis] / plan.block_edge[axis];
    first[axis] =
        tile_idx % plan.tiles[axis] * plan.tile_edge[axis] + s % per_tile * plan.block_edge[axis];
    tile_idx /= plan.tiles[axis];
    s /= per_tile;
    n[axis] = static_cast<uint32_t>(clamp_to(plan.grid[axis] - first[axis], plan.block_edge[axis]));
    if (static_cast<int32_t>(n[axis]) < plan.block_edge[axis]) kind |= 1U << (2 - axis);
  }
  const uint32_t len = n[0] * n[1] * n[2];
  block.f = first[0];
  block.h = first[1];
  block.w = first[2];
  block.bits = Block::pack(len, len, n[2], n[1], kind);
  return block;
}

/// Position on the sequence axis of row r of the block, where r < len (in a run r < rows). For
/// other rows it is any number.
VSA_HOST_DEVICE int32_t position_of(const PlanShape& plan, const Block& block, int32_t r) {
  if (block.kind() == Block::kRun) {
    if (plan.tokens == nullptr || r >= block.len()) return block.w + r;
    return plan.tokens[block.w + r];
  }
  const int32_t rw = r % block.nw();
  const int32_t rh = r / block.nw() % block.nh();
  const int32_t rf = r / block.nw() / block.nh();
  return plan.base + ((block.f + rf) * plan.grid[1] + block.h + rh) * plan.grid[2] + block.w + rw;
}

}  // namespace vsa::cuda
