// Parameters of the forward fine kernel, its units of work, and its shared memory. Host and device.
//
// Words (docs/reference/glossary.md): a *block* is at most 64 tokens of a tile. A *pair* is two
// query blocks that share one schedule; each of the two is a *half* of the pair, number 0 or 1. An
// *item* is a pair of one head of one batch item. A *unit* is what the kernel distributes: an item
// or one half of it. A *ring* is a circular buffer of *slots* in shared memory; a slot holds one
// *step* of the schedule: 64 rows of k or of v.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/plan/schedule.h"
#include "src/cuda/support/rows.h"

namespace vsa::cuda::sm90 {

/// The tensor maps of one tensor: 0 to 7 copy cuboids (by Block::kind), 8 + i copies 2^i
/// consecutive rows.
inline constexpr int kNumBoxes = 15;
inline constexpr int kRunBox = 8;
struct BoxMaps {
  CUtensorMap box[kNumBoxes];
};

/// Head (b, h) has the coordinate b * batch + h * head on the last axis of a tensor map.
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

  int32_t num_pairs;  // of one head; the last has only one half if the number of blocks is odd
  int32_t num_heads;
  int32_t group_size;
  int32_t num_items;       // batch * num_heads * num_pairs
  int32_t num_pair_items;  // items that are one unit each, see WorkUnit; set by the launch
  int32_t* queue_head;     // counts the units that were taken from the queue; 0 at the start

  float scale_log2;  // |scale| * log2(e), not 0
  uint32_t q_sign;   // 0x80008000 if scale is negative: then the signs of q are flipped instead
  /// Added to the unscaled scores of the last token of the kv sequence, in the slot that has rows
  /// without a token: so that it counts as often as FineArgs::last_key_repeats says.
  float last_key_score;

  Rows out;
  Rows lse;                 // f32; data may be null
  ConstRows gate;           // data null: gate_coarse is the constant
  const float* coarse_out;  // [batch * num_heads, num_q_tiles, head_dim]; null: no coarse branch
  float gate_fine;
  float gate_coarse;
};

inline constexpr uint32_t kWarpsPerConsumer = 4;
inline constexpr uint32_t kPairProducers = 4;  // producer warps at head_dim 128: k, v of each ring
inline constexpr int kUnitStages = 2;  // slots for units that the leading producer has taken

/// Whether the two consumers of a CTA process the halves of one pair, so that a key block that both
/// query blocks keep is copied once for both.
constexpr bool consumers_share_copies(int64_t head_dim) { return head_dim == 128; }

/// The threads of a CTA. Together they have no more than a multiprocessor's 65536 registers.
///
/// At head_dim 128 two consumers process the halves of a pair and share copies, because the copies
/// come close to the bandwidth of the L2. At head_dim 64 that limit is further away, and the
/// latency of a consumer's dependent instructions limits it; a third consumer hides this latency.
/// There every consumer has its own ring and its own units, and registers suffice for the scores of
/// one slot.
template <int kHeadDim>
struct FineShape {
  static constexpr bool kPaired = consumers_share_copies(kHeadDim);
  static constexpr int kConsumers = kPaired ? 2 : 3;
  static constexpr int kStages = kPaired ? 3 : 4;  // slots of each ring
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = kPaired ? 56 : 80;
  static constexpr int kConsumerRegisters = kPaired ? 224 : 144;
};

/// The units of work: how the halves of all items are numbered and given to consumers.
///
/// At head_dim 64 every unit is one half, for one consumer. At head_dim 128 units 0 to
/// num_pair_items - 1 are pairs, one half for each consumer of a CTA. The items that are left after
/// every multiprocessor had the same number are the last round. If they are at most half as many as
/// the multiprocessors, each of them is split into two units of one half: two CTAs with one busy
/// consumer each are faster than one CTA with two. A half processes its steps in the same order
/// alone as in its pair, so its bits are the same.
template <int kHeadDim>
struct WorkUnit {
  static constexpr bool kPaired = FineShape<kHeadDim>::kPaired;
  static constexpr int kConsumers = FineShape<kHeadDim>::kConsumers;

  /// The first unit of a consumer. At head_dim 64 consumer 0 of every CTA gets one before consumer
  /// 1 of any CTA does, so that no multiprocessor has three units while another has none.
  VSA_HOST_DEVICE static int32_t first_unit(uint32_t cta, int consumer, uint32_t num_ctas) {
    return static_cast<int32_t>(kPaired ? cta : static_cast<uint32_t>(consumer) * num_ctas + cta);
  }
  /// How many units are first units. Consumers get their later units from a queue at head_dim 128;
  /// at head_dim 64 a consumer's units are this number apart.
  VSA_HOST_DEVICE static int32_t num_first_units(uint32_t num_ctas) {
    return static_cast<int32_t>(num_ctas) * (kPaired ? 1 : kConsumers);
  }
  /// How many items, the first ones, are one unit each on a device of num_sms multiprocessors.
  VSA_HOST_DEVICE static int32_t num_pair_items(int32_t num_items, int32_t num_sms) {
    const int32_t left = num_items % num_sms;
    return kPaired ? num_items - (2 * left <= num_sms ? left : 0) : 0;
  }
  /// How many units there are.
  VSA_HOST_DEVICE static int32_t count(int32_t num_items, int32_t num_pair_items) {
    return num_pair_items + 2 * (num_items - num_pair_items);
  }
  /// Whether a unit is both halves of its item.
  VSA_HOST_DEVICE static bool is_pair(int32_t unit, int32_t num_pair_items) {
    return kPaired && unit < num_pair_items;
  }
  /// The item that a unit belongs to.
  VSA_HOST_DEVICE static int32_t item(int32_t unit, int32_t num_pair_items) {
    return is_pair(unit, num_pair_items) ? unit : num_pair_items + (unit - num_pair_items) / 2;
  }
  /// Which half a unit is that is no pair.
  VSA_HOST_DEVICE static int half(int32_t unit, int32_t num_pair_items) {
    return (unit - num_pair_items) % 2;
  }
};

/// What a producer tells a consumer about its part of a unit; full_q says that it and q are there.
struct alignas(16) ConsumerWork {
  /// Slots of the common steps, which use both rings alternately; 0 at head_dim 64, where these
  /// steps are counted in num_exclusive.
  int32_t num_common = 0;
  /// Slots after these that only half i reads, in ring i.
  int32_t num_exclusive[2] = {0, 0};
  int32_t unit = kNoMoreUnits;
  Block block;              ///< the query block
  int32_t has_partial = 0;  ///< whether a slot may have rows without a token
  int32_t q_block = -1;     ///< number of the query block; -1: this consumer has nothing to do

  static constexpr int32_t kNoMoreUnits = -1;
};

/// Shared memory of the kernel; it begins at a multiple of 1 KiB.
///   head_dim 128:  q 2 x 16 KiB, 2 rings of 3 slots of k 16 KiB + v 16 KiB: 224 KiB of 227
///   head_dim  64:  q 3 x  8 KiB, 3 rings of 4 slots of k  8 KiB + v  8 KiB: 216 KiB
/// The rest (masks, descriptions of work, barriers) is below 1 KiB. Barriers, and who arrives:
///   full_k, full_v    1 by the slot's producer, and the bytes of its copies: the slot may be read
///   empty_k, empty_v  1 by each warp that reads the slot (8 at head_dim 128, 4 at 64): it may be
///                     overwritten. If only one of the two consumers reads a slot, the producer
///                     makes the 4 arrivals of the other one
///   full_q            1 by the producer of k, and the bytes of q: q and `work` are there
///   empty_q           128, each lane of the consumer once it has read `work` and loaded q
///   full_unit         1 by the leading producer: `unit` holds the next unit (head_dim 128)
///   empty_unit        3, the other producers: they have read `unit`
///   pair_barrier      8, each warp of both consumers: all slots of the unit have been read
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
  uint32_t saved_state[Shape::kThreads / 32];  // of each consumer warp, see PairConsumer
  uint64_t row_bits[kRings][kStages];          // which rows of the slot hold a token
  ConsumerWork work[2][kRings];                // of even and odd units, one for each consumer
  int32_t unit[kUnitStages];                   // units that the leading producer has taken
  uint64_t full_k[kRings][kStages], full_v[kRings][kStages];
  uint64_t empty_k[kRings][kStages], empty_v[kRings][kStages];
  uint64_t full_q[kRings], empty_q[kRings];
  uint64_t full_unit[kUnitStages], empty_unit[kUnitStages];
  uint64_t pair_barrier;

  static constexpr int kAlignment = 1024;
};

/// Where the other barriers and the row bits of a slot lie, relative to its full_k in bytes.
template <class Smem>
struct SlotOffsets {
  static constexpr uint32_t kFullK = 0;
  static constexpr uint32_t kFullV = offsetof(Smem, full_v) - offsetof(Smem, full_k);
  static constexpr uint32_t kEmptyK = offsetof(Smem, empty_k) - offsetof(Smem, full_k);
  static constexpr uint32_t kEmptyV = offsetof(Smem, empty_v) - offsetof(Smem, full_k);
  static constexpr uint32_t kRowBits = offsetof(Smem, row_bits) - offsetof(Smem, full_k);
};

}  // namespace vsa::cuda::sm90
