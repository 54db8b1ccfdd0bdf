// Reads of the words in shared memory that describe the contents of a slot. Device-only.
//
// Producers write these words with ordinary stores. Only lane 0 of a warp reads them and tells the
// other lanes, because lane 0 also makes the warp's arrival on the empty barrier.
// compute-sanitizer's racecheck orders a lane's reads before its own arrival, but, where the
// compiler removes __syncwarp(), not the reads of other lanes before the arrival of lane 0.
#pragma once

#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda::sm90 {

/// The rows of a slot that hold a token, as a mask. All lanes of a warp call it.
/// @param address  of the word in shared memory
__device__ __forceinline__ uint64_t read_row_bits(uint32_t address) {
  uint64_t bits = 0;
  if (threadIdx.x % 32 == 0) bits = load_shared64(address);
  return __shfl_sync(kAllLanes, bits, 0);
}

/// Whether all rows of the slot hold a token: cheaper than read_row_bits. All lanes of a warp call
/// it.
__device__ __forceinline__ bool read_all_rows_full(uint32_t address) {
  bool full = true;
  if (threadIdx.x % 32 == 0) full = load_shared64(address) == ~uint64_t{0};
  return __all_sync(kAllLanes, full) != 0;
}

/// Whether a word of shared memory is not 0. All lanes of a warp call it.
__device__ __forceinline__ bool read_flag(const uint32_t& word) {
  bool flag = false;
  if (threadIdx.x % 32 == 0) flag = word != 0;
  return __any_sync(kAllLanes, flag) != 0;
}

}  // namespace vsa::cuda::sm90
