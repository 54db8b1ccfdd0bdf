// The schedule of the forward fine kernel: which key blocks a pair of query blocks fetches, and in
// which order. Host and device.
//
// A schedule is three lists of steps: first the key blocks that both query blocks keep (common),
// then those that only the first keeps and those that only the second keeps (exclusive), which are
// processed at the same time. A kernel that computes both halves of the pair together can load a
// common block once for both.
//
//   first keeps A B C D, second keeps B C E F  ->  common B C | only first A D | only second E F
//
// A step is 64 rows of shared memory: one full block, or several partial blocks (from the far edges
// of the grid), each at a multiple of 8 rows, so that partial blocks waste little.
#pragma once

#include <cstdint>

#include "src/cuda/plan/block.h"

namespace vsa::cuda {

/// One key block of a step, packed: 28 bits block index, 3 bits row offset / 8, 1 bit whether it is
/// the last block of its step.
struct ScheduleEntry {
  static constexpr uint32_t kMaxBlocks = 1U << 28;
  VSA_HOST_DEVICE static uint32_t pack(int32_t block, int32_t row) {
    return static_cast<uint32_t>(block) | static_cast<uint32_t>(row / 8) << 28;
  }
  static constexpr uint32_t kLast = 1U << 31;
  VSA_HOST_DEVICE static int32_t block(uint32_t entry) {
    return static_cast<int32_t>(entry & (kMaxBlocks - 1));
  }
  VSA_HOST_DEVICE static int32_t row(uint32_t entry) {
    return static_cast<int32_t>(entry >> 28 & 7U) * 8;
  }
};

/// Describes the schedule of one pair; its entries are an array of their own. The common list
/// begins at entry 0.
struct alignas(16) ScheduleHead {
  int32_t num_common = 0;               ///< steps of the common list
  int32_t num_exclusive[2] = {0, 0};    ///< steps that only half i reads
  int32_t begin_exclusive[2] = {0, 0};  ///< the first entry of each of these two lists
  int32_t end = 0;                      ///< number of entries
  int32_t has_partial = 0;              ///< whether a step may have rows without a token
  int32_t q_block[2] = {0, 0};          ///< query block of half i; -1: there is none
  int32_t unused[3] = {0, 0, 0};
};

/// Packs partial blocks into steps of 64 rows, in their order. place() is called for each block and
/// returns its first row and whether it opens a new step.
struct StepPacker {
  int32_t row = kBlockTokens;  ///< next free row of the open step; 64: it is full, or none is open
  int32_t num_steps = 0;

  struct Place {
    int32_t row;
    bool opens_step;
  };
  VSA_HOST_DEVICE Place place(int32_t len) {
    const int32_t rows = (len + 7) / 8 * 8;
    const bool opens = row + rows > kBlockTokens;
    if (opens) {
      row = 0;
      ++num_steps;
    }
    const Place at{row, opens};
    row += rows;
    return at;
  }
};

/// The rows of a step in which a block at `row` with `len` tokens has tokens, as a mask.
VSA_HOST_DEVICE uint64_t row_bits(int32_t row, int32_t len) {
  return (len >= kBlockTokens ? ~uint64_t{0} : (uint64_t{1} << len) - 1) << row;
}

}  // namespace vsa::cuda
