// The words that tell a warp what a slot holds. Device-only.
//
// The producer writes them with ordinary stores, again once lane 0 has given the slot back for its
// warp. Lane 0 alone reads them, and tells the others: race checkers see a lane's own reads before
// its arrival, but none of other lanes where the compiler drops __syncwarp().
#pragma once

#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda::sm90 {

/// Rows of a slot that hold a token. A warp together.
/// @param address  of the word in shared memory
__device__ __forceinline__ uint64_t read_row_bits(uint32_t address) {
  uint64_t bits = 0;
  if (threadIdx.x % 32 == 0) bits = load_shared64(address);
  return __shfl_sync(kAllLanes, bits, 0);
}

/// Whether all do, for less.
__device__ __forceinline__ bool read_all_rows_full(uint32_t address) {
  bool full = true;
  if (threadIdx.x % 32 == 0) full = load_shared64(address) == ~uint64_t{0};
  return __all_sync(kAllLanes, full) != 0;
}

/// Whether a word of shared memory is not 0. A warp together.
__device__ __forceinline__ bool read_flag(const uint32_t& word) {
  bool flag = false;
  if (threadIdx.x % 32 == 0) flag = word != 0;
  return __any_sync(kAllLanes, flag) != 0;
}

}  // namespace vsa::cuda::sm90
