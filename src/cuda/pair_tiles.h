// Entrance of the kernel that pairs query tiles. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string_view>

#include "vsa/lut.h"
#include "vsa/status.h"

namespace vsa::cuda {

struct PairParams {
  ConstLut lut;
  int2*
      pairs;  // [batch * num_heads, num_pairs]: two query tiles; the second is -1 if there is none
  int32_t num_q_tiles, num_kv_tiles;
  int32_t num_words;  // for a bit of every kv tile
  int64_t num_pairs;
};

/// Whether the lists of a window fit into shared memory as bits.
bool can_pair_tiles(int64_t num_kv_tiles);
/// Enqueues the pairing of all rows of a table.
Status run_pair_tiles(std::string_view operation, const PairParams& params, int64_t batch_heads,
                      cudaStream_t stream);

}  // namespace vsa::cuda
