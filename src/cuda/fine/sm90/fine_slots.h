// The order in which a consumer of the forward fine kernel reads the slots of the rings, in few
// registers. Host and device, so that tests simulate it on the host.
//
// At head_dim 64 a consumer reads the slots of one ring cyclically (RingPosition). At head_dim 128
// the common slots of a pair alternate between both rings, and the last one is in ring 1; after
// them half i reads the slots of ring i (Rings). A half reads the same slots whether it is a unit
// of its own or part of a pair.
//
//   3 common slots, then 2 of each half:
//     half 0 reads  ring 1, ring 0, ring 1,  ring 0, ring 0
//     half 1 reads  ring 1, ring 0, ring 1,  ring 1, ring 1
#pragma once

#include <cstdint>

#include "src/cuda/plan/block.h"

namespace vsa::cuda::sm90 {

/// A slot and the parity of its current phase in one byte: 8 * number + parity. 8 * number is also
/// the offset of the slot's 8-byte barriers in the arrays of FineSmem.
struct Slot {
  uint32_t bits;
  VSA_HOST_DEVICE constexpr uint32_t parity() const { return bits & 1U; }
  VSA_HOST_DEVICE constexpr uint32_t number() const { return bits / 8; }
  VSA_HOST_DEVICE constexpr uint32_t offset() const { return bits & ~7U; }  // of barriers
};

/// Up to four slots in one register.
struct Slots {
  uint32_t bytes = 0;
  VSA_HOST_DEVICE constexpr Slot operator[](int i) const { return {bytes >> (8 * i) & 0xFFU}; }
};

/// The positions of a consumer in both rings; slots 0 to kStages - 1 are ring 0, the others ring 1.
/// @tparam kStages  slots of each ring
template <int kStages>
struct Rings {
  static constexpr uint32_t kRing = 8 * kStages;  // offset of ring 1
  static_assert(2 * kRing <= 256, "a slot is a byte");

  Slots next{kRing << 8};  ///< the next slot of each ring

  /// Returns the next slot of a ring and advances the ring: after its last slot comes its first
  /// one, in the next phase.
  VSA_HOST_DEVICE constexpr Slot next_slot(int ring) {
    const Slot at = next[ring];
    uint32_t after = at.bits + 8;
    if (after >= (static_cast<uint32_t>(ring) + 1) * kRing) after = (after - kRing) ^ 1U;
    next.bytes += (after - at.bits) << (8 * ring);
    return at;
  }

  /// Returns the next kCount slots of a unit and advances the rings.
  /// @param left           number of slots of the unit that remain; decreases by kCount
  /// @param num_exclusive  how many slots of the unit only this half reads; they are the last ones
  template <int kCount>
  VSA_HOST_DEVICE constexpr Slots next_slots(int32_t& left, int32_t num_exclusive, int half) {
    Slots slots;
    for (int c = 0; c < kCount; ++c, --left) {
      slots.bytes |= next_slot(left > num_exclusive ? (left - num_exclusive) & 1 : half).bits
                     << (8 * c);
    }
    return slots;
  }

  /// Advances both rings by all slots of a unit, including those that only the other half reads.
  VSA_HOST_DEVICE constexpr void skip(int32_t num_common, const int32_t (&num_exclusive)[2]) {
    Slots after;
    for (int ring = 0; ring < 2; ++ring) {
      const int32_t uses = (num_common + ring) / 2 + num_exclusive[ring];
      const uint32_t at = next[ring].number() + static_cast<uint32_t>(uses - ring * kStages);
      const uint32_t parity = (next[ring].bits ^ at / kStages) & 1U;
      after.bytes |= ((at % kStages + static_cast<uint32_t>(ring * kStages)) * 8 + parity)
                     << (8 * ring);
    }
    next = after;
  }
};

/// A position in a single ring: how many slots were used since the kernel began.
/// @tparam kStages  slots of the ring
template <int kStages>
struct RingPosition {
  static_assert((kStages & (kStages - 1)) == 0, "so that `number` may wrap around at 2^32");
  uint32_t number = 0;
  VSA_HOST_DEVICE constexpr uint32_t slot() const { return number % kStages; }
  VSA_HOST_DEVICE constexpr uint32_t parity() const { return number / kStages % 2; }
  VSA_HOST_DEVICE constexpr RingPosition next() const { return {number + 1}; }
};

}  // namespace vsa::cuda::sm90
