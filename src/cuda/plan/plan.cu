// Fills the block tables of one or two plans on the device.
//
//   plan_kernel     PlanShape (kernel parameter), runs -> blocks, tile_len; a thread for each tile
//   upload_kernel   words in kernel parameters -> global memory; a thread for each word
//
// Neither uses shared memory. Of a video the host passes only the shape of its grid, of prefixes
// and tile order 8 bytes for each run. Of tiles that are neither cuboids nor runs it passes 4 bytes
// for each token: 8 launches of 4096 words for 32760 tokens.
#include <algorithm>
#include <cstring>

#include "src/cuda/plan/plan.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWordsPerUpload = 4096;  // 16 KiB; kernel parameters may have 32 KiB

struct UploadParams {
  int32_t* to;
  int32_t count;
  int32_t words[kWordsPerUpload];
};

__global__ void upload_kernel(const __grid_constant__ UploadParams params) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < params.count) params.to[i] = params.words[i];
}

struct TableParams {
  PlanTable table;
  const Run* runs;
};

/// grid: x tiles / 128, y plans
__global__ void plan_kernel(const __grid_constant__ TableParams q,
                            const __grid_constant__ TableParams kv) {
  pdl_wait_and_trigger();
  const TableParams& params = blockIdx.y == 0 ? q : kv;
  const PlanShape& shape = params.table.shape;
  const int tile = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (tile >= shape.num_tiles) return;
  const Run run = tile < shape.num_runs ? params.runs[tile] : Run{};
  int32_t len = 0;
  for (int32_t s = 0; s < shape.blocks_per_tile; ++s) {
    const Block block = make_block(shape, tile, s, run);
    params.table.blocks[static_cast<int64_t>(tile) * shape.blocks_per_tile + s] = block;
    len += block.len();
  }
  params.table.tile_len[tile] = len;
}

}  // namespace

Status upload(const CallSite& at, const int32_t* from, int64_t count, int32_t* to) {
  UploadParams params;
  for (int64_t done = 0; done < count; done += kWordsPerUpload) {
    params.to = to + done;
    params.count = static_cast<int32_t>(std::min<int64_t>(kWordsPerUpload, count - done));
    std::memcpy(params.words, from + done, static_cast<size_t>(params.count) * sizeof(int32_t));
    VSA_TRY(launch(at, upload_kernel,
                   {.grid = dim3(grid_extent(params.count, 256)), .block = dim3(256)}, params));
  }
  return {};
}

Status PlanTables::build(const CallSite& at) const {
  static_assert(sizeof(Run) == 2 * sizeof(int32_t));
  int64_t most_tiles = 0;
  for (int i = 0; i < num_tables_; ++i) {
    most_tiles = std::max<int64_t>(most_tiles, tables_[i].shape.num_tiles);
    VSA_TRY(upload(at, reinterpret_cast<const int32_t*>(images_[i].runs.data()),
                   int64_t{2} * tables_[i].shape.num_runs, reinterpret_cast<int32_t*>(runs_[i])));
    const std::span<const int32_t> tokens = images_[i].tokens;
    VSA_TRY(upload(at, tokens.data(), static_cast<int64_t>(tokens.size()), tokens_[i]));
  }
  const int last = num_tables_ - 1;
  return launch(
      at, plan_kernel,
      {.grid = dim3(grid_extent(most_tiles, kThreads), static_cast<unsigned>(num_tables_)),
       .block = dim3(kThreads),
       .overlaps_previous = true},  // the previous kernel may be one of the caller's
      TableParams{tables_[0], runs_[0]}, TableParams{tables_[last], runs_[last]});
}

}  // namespace vsa::cuda
