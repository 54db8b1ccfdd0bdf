// What the fine kernel is given, and how it divides shared memory. Host and device.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/plan/schedule.h"
#include "src/cuda/support/rows.h"

namespace vsa::cuda::sm90 {

/// Boxes of one tensor: 0 to 7 cuboids by Block::kind, 8 + i runs of 2^i rows.
inline constexpr int kNumBoxes = 15;
inline constexpr int kRunBox = 8;
struct BoxMaps {
  CUtensorMap box[kNumBoxes];
};

/// Coordinate of head (b, h) on a map's last axis: b * batch + h * head.
struct HeadStep {
  int32_t batch = 0;
  int32_t head = 0;
};

struct FineParams {
  BoxMaps q, k, v;
  HeadStep q_step, k_step, v_step;

  const Block* q_blocks;   // [num_q_blocks]
  const Block* kv_blocks;  // [num_kv_blocks]
  PlanShape q_plan;
  const ScheduleHead* heads;  // [batch * num_heads * num_pairs]
  const uint32_t* entries;    // [batch * num_heads * num_pairs, entry_pitch]
  int64_t entry_pitch;

  int32_t num_pairs;  // of query blocks; one block may be left over
  int32_t num_heads;
  int32_t group_size;
  int32_t num_items;   // batch * num_heads * num_pairs
  int32_t num_whole;   // of them taken as a pair, see Unit; set by the launch
  int32_t* num_taken;  // of the units after the first ones: the queue, 0 at first

  float scale_log2;  // |scale| * log2(e), not 0
  uint32_t q_sign;   // 0x80008000 if scale is negative: flips q instead

  Rows out;
  Rows lse;                 // f32; data may be null
  ConstRows gate;           // data null: gate_coarse is the constant
  const float* coarse_out;  // [batch * num_heads, num_q_tiles, head_dim]; null: no coarse branch
  float gate_fine;
  float gate_coarse;
};

inline constexpr uint32_t kWarpsPerConsumer = 4;
inline constexpr uint32_t kSharingWarps = 4;  // producers of a pair: k and v of each ring
inline constexpr int kUnitStages = 2;         // units that the leader of these is ahead of the last

/// Whether the halves of a pair use the same copies of what both keep.
constexpr bool halves_share_copies(int64_t head_dim) { return head_dim == 128; }

/// How a CTA is divided. All threads together have no more than a multiprocessor's 65536 registers.
///
/// At head_dim 128 two consumers are the halves of a pair and share what both keep: copies are near
/// the rate of the L2. At 64 it is further away; what a consumer waits for is its own chain of
/// instructions, which a third one hides. Each is alone, with a ring and a way through the schedule
/// to itself, and registers are for one slot of scores at a time.
template <int kHeadDim>
struct FineShape {
  static constexpr bool kPaired = halves_share_copies(kHeadDim);
  static constexpr int kConsumers = kPaired ? 2 : 3;
  static constexpr int kStages = kPaired ? 3 : 4;  // slots of each consumer's ring
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = kPaired ? 56 : 80;
  static constexpr int kConsumerRegisters = kPaired ? 224 : 144;
};

/// Query blocks as CTAs take them. A unit is a pair, of which each consumer has a half, or a single
/// half. At head_dim 64 all are halves, each for one consumer. At 128 those are what is left when
/// every CTA has had as many pairs as the others, for one consumer while the other has nothing: two
/// multiprocessors are faster than one. A single half takes its steps in the order it has in a
/// pair, so it gives the same bits.
template <int kHeadDim>
struct Unit {
  static constexpr bool kPaired = FineShape<kHeadDim>::kPaired;
  static constexpr int kConsumers = FineShape<kHeadDim>::kConsumers;

  /// The first unit of a consumer. These go to as many CTAs as there are, so that no multiprocessor
  /// has three while another has none.
  VSA_HOST_DEVICE static int32_t first(uint32_t cta, int consumer, uint32_t num_ctas) {
    return static_cast<int32_t>(kPaired ? cta : static_cast<uint32_t>(consumer) * num_ctas + cta);
  }
  /// How many are given out so; after them come the others, at head_dim 128 from a queue.
  VSA_HOST_DEVICE static int32_t num_first(uint32_t num_ctas) {
    return static_cast<int32_t>(num_ctas) * (kPaired ? 1 : kConsumers);
  }
  /// Pairs taken whole, on a device of so many multiprocessors: the first ones.
  VSA_HOST_DEVICE static int32_t num_whole(int32_t num_items, int32_t num_sms) {
    const int32_t left = num_items % num_sms;
    return kPaired ? num_items - (2 * left <= num_sms ? left : 0) : 0;
  }
  VSA_HOST_DEVICE static int32_t count(int32_t num_items, int32_t num_whole) {
    return num_whole + 2 * (num_items - num_whole);
  }
  VSA_HOST_DEVICE static bool is_whole(int32_t unit, int32_t num_whole) {
    return kPaired && unit < num_whole;
  }
  VSA_HOST_DEVICE static int32_t item(int32_t unit, int32_t num_whole) {
    return is_whole(unit, num_whole) ? unit : num_whole + (unit - num_whole) / 2;
  }
  /// Which half, of a unit that is one.
  VSA_HOST_DEVICE static int half(int32_t unit, int32_t num_whole) {
    return (unit - num_whole) % 2;
  }
};

/// What a consumer must know of a unit besides its q.
struct alignas(16) ItemHalf {
  int32_t num_common = 0;       ///< slots of both rings, in turn; none at head_dim 64
  int32_t num_own[2] = {0, 0};  ///< then slots of each half's ring
  int32_t unit = kNoUnit;
  Block block;
  int32_t has_short = 0;  ///< whether a slot may have rows without a token
  int32_t q_block = -1;   ///< number of the block; -1: there is none, and nothing to do

  static constexpr int32_t kNoUnit = -1;  ///< there are no more
};

/// Shared memory of the kernel, from a multiple of 1 KiB on.
///   head_dim 128:  q 2 x 16 KiB, 2 rings of 3 slots of k 16 KiB + v 16 KiB: 224 KiB of 227
///   head_dim  64:  q 3 x  8 KiB, 3 rings of 4 slots of k  8 KiB + v  8 KiB: 216 KiB
template <int kHeadDim>
struct FineSmem {
  using Shape = FineShape<kHeadDim>;
  static constexpr int kSlabs = kHeadDim / kSlabElements;
  static constexpr int kBufferBytes = kSlabs * kSlabBytes;
  static constexpr int kRings = Shape::kConsumers;
  static constexpr int kStages = Shape::kStages;

  uint8_t q[kRings][kBufferBytes];
  uint8_t k[kRings][kStages][kBufferBytes];
  uint8_t v[kRings][kStages][kBufferBytes];
  uint32_t notes[Shape::kThreads / 32];  // a consuming warp's to itself
  uint64_t row_bits[kRings][kStages];    // rows of the slot that hold tokens
  ItemHalf item[2][kRings];              // of even and odd units, one for each consumer
  int32_t unit[kUnitStages];             // what the queue gave, for producers that share units
  // full: one arrival of the producer, and the bytes. empty: one of each warp that reads, which the
  // producer makes for a consumer that does not.
  uint64_t full_k[kRings][kStages], full_v[kRings][kStages];
  uint64_t empty_k[kRings][kStages], empty_v[kRings][kStages];
  uint64_t full_q[kRings], empty_q[kRings];  // empty: each lane, as each has read `item` before
  uint64_t full_unit[kUnitStages], empty_unit[kUnitStages];  // the leader; the other producers
  uint64_t meet;  // both halves of a pair have seen all slots of the item

  static constexpr int kAlignment = 1024;
};

/// Where the barriers and the rest of a slot lie, from its full_k on.
template <class Smem>
struct SlotOffsets {
  static constexpr uint32_t kFullK = 0;
  static constexpr uint32_t kFullV = offsetof(Smem, full_v) - offsetof(Smem, full_k);
  static constexpr uint32_t kEmptyK = offsetof(Smem, empty_k) - offsetof(Smem, full_k);
  static constexpr uint32_t kEmptyV = offsetof(Smem, empty_v) - offsetof(Smem, full_k);
  static constexpr uint32_t kRowBits = offsetof(Smem, row_bits) - offsetof(Smem, full_k);
};

}  // namespace vsa::cuda::sm90
