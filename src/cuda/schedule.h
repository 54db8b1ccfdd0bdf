// The schedule of the fine kernel: for a pair of query blocks, which key blocks arrive in which
// order. Host and device.
//
// A pair walks three lists one after the other: the blocks that both query blocks keep, then what
// only the first keeps beside what only the second keeps. A common block is loaded once and used
// twice, which is what the rate from L2 to shared memory asks for. With lists of equal length both
// halves have equally long ways.
//
// A step is 64 rows of shared memory: one full block, or several short ones (from the far edges of
// the grid) each at a multiple of 8 rows, so that padding costs next to nothing.
#pragma once

#include <cstdint>

#include "src/cuda/block.h"

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

/// The head of a pair's schedule: steps of the three lists, and where the entries of the second and
/// third begin and those of the third end; those of the first begin at 0.
struct alignas(16) ScheduleHead {
  int32_t num_common = 0;
  int32_t num_own[2] = {0, 0};
  int32_t begin_own[2] = {0, 0};
  int32_t end = 0;
  int32_t unused[2] = {0, 0};
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

/// A ring of shared memory slots that both halves of a pair know by heart. Common step i uses ring
/// i % 2; afterwards each half has ring `half` for itself.
struct RingUse {
  uint32_t ring;
  uint32_t use;  ///< how often the ring was used before: slot use % stages, phase use / stages
};

/// What step i (common ones first, then its own) of a half uses. `before`: uses of each ring by
/// earlier pairs.
VSA_HOST_DEVICE RingUse ring_use(const uint32_t (&before)[2], int32_t num_common, int32_t half,
                                 int32_t i) {
  if (i < num_common) {
    const uint32_t ring = static_cast<uint32_t>(i) & 1U;
    return {ring, (ring == 0 ? before[0] : before[1]) + (static_cast<uint32_t>(i) >> 1)};
  }
  const auto common = static_cast<uint32_t>(num_common + 1 - half) >> 1;
  return {static_cast<uint32_t>(half),
          (half == 0 ? before[0] : before[1]) + common + static_cast<uint32_t>(i - num_common)};
}

/// Adds the uses of a finished pair.
VSA_HOST_DEVICE void advance_rings(uint32_t (&before)[2], const ScheduleHead& head) {
  before[0] += static_cast<uint32_t>((head.num_common + 1) / 2 + head.num_own[0]);
  before[1] += static_cast<uint32_t>(head.num_common / 2 + head.num_own[1]);
}

}  // namespace vsa::cuda
