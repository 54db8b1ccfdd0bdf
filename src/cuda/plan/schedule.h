// The schedule of the fine kernel: for a pair of query blocks, which key blocks arrive in which
// order. Host and device.
//
// A pair walks three lists one after the other: the blocks that both query blocks keep, then what
// only the first keeps beside what only the second keeps. A kernel that computes both halves at
// once can load a common block once and use it twice. With lists of equal length both halves have
// equally long ways.
//
// A step is 64 rows of shared memory: one full block, or several short ones (from the far edges of
// the grid) each at a multiple of 8 rows, so that padding costs next to nothing.
#pragma once

#include <cstdint>

#include "src/cuda/plan/block.h"

namespace vsa::cuda {

/// One key block of a step, packed: block index, row offset / 8, whether the step ends here.
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

/// The head of a pair's schedule: steps of the three lists, where the entries of the second and
/// third begin and those of the third end (those of the first begin at 0), and whether any step may
/// have rows without a token.
struct alignas(16) ScheduleHead {
  int32_t num_common = 0;
  int32_t num_own[2] = {0, 0};
  int32_t begin_own[2] = {0, 0};
  int32_t end = 0;
  int32_t has_short = 0;
  int32_t q_block[2] = {0, 0};  ///< of each half; -1: there is none
  int32_t unused[3] = {0, 0, 0};
};

/// Packs short blocks into steps of 64 rows in their order. Feed it each block; it says where the
/// block goes and whether a new step began before it.
struct StepPacker {
  int32_t row = kBlockTokens;  ///< next free row; 64: no step is open
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

/// Rows of a step that hold a token, as bits, given one of its blocks.
VSA_HOST_DEVICE uint64_t row_bits(int32_t row, int32_t len) {
  return (len >= kBlockTokens ? ~uint64_t{0} : (uint64_t{1} << len) - 1) << row;
}

}  // namespace vsa::cuda
