// How a consumer of the fine kernel walks the rings of slots in shared memory, in few registers.
// Host and device, so that tests play it without a device.
//
// At head_dim 64 a half takes one ring's slots as they come (RingUse). At 128 a pair has its common
// slots in both rings in turn, the last in ring 1; afterwards each half has ring `half` for itself
// (schedule.h). A single half takes the same slots as in its pair. A slot is 8 times its number,
// which is where its barriers lie, plus the parity of its phase: a byte, and a ring's next slot is
// state enough.
#pragma once

#include <cstdint>

#include "src/cuda/plan/block.h"

namespace vsa::cuda::sm90 {

struct Slot {
  uint32_t bits;
  VSA_HOST_DEVICE constexpr uint32_t parity() const { return bits & 1U; }
  VSA_HOST_DEVICE constexpr uint32_t number() const { return bits / 8; }
  VSA_HOST_DEVICE constexpr uint32_t offset() const { return bits & ~7U; }  // of its barriers
};

/// Up to four slots in one register.
struct Slots {
  uint32_t bytes = 0;
  VSA_HOST_DEVICE constexpr Slot operator[](int i) const { return {bytes >> (8 * i) & 0xFFU}; }
};

/// @tparam kStages  slots of each ring
template <int kStages>
struct Rings {
  static constexpr uint32_t kRing = 8 * kStages;
  static_assert(2 * kRing <= 256, "a slot is a byte");

  Slots next{kRing << 8};  ///< the next slot of each ring

  /// The next slot of a ring, which moves on: beyond its last to the first, in the next phase.
  VSA_HOST_DEVICE constexpr Slot take(int ring) {
    const Slot at = next[ring];
    uint32_t after = at.bits + 8;
    if (after >= (static_cast<uint32_t>(ring) + 1) * kRing) after = (after - kRing) ^ 1U;
    next.bytes += (after - at.bits) << (8 * ring);
    return at;
  }

  /// The next kCount slots of an item.
  /// @param left     slots of the item that are left; shrinks
  /// @param num_own  of them are the half's own
  template <int kCount>
  VSA_HOST_DEVICE constexpr Slots take(int32_t& left, int32_t num_own, int half) {
    Slots slots;
    for (int c = 0; c < kCount; ++c, --left) {
      slots.bytes |= take(left > num_own ? (left - num_own) & 1 : half).bits << (8 * c);
    }
    return slots;
  }

  /// Moves on over a whole item.
  VSA_HOST_DEVICE constexpr void skip(int32_t num_common, const int32_t (&num_own)[2]) {
    Slots after;
    for (int ring = 0; ring < 2; ++ring) {
      const int32_t uses = (num_common + ring) / 2 + num_own[ring];
      const uint32_t at = next[ring].number() + static_cast<uint32_t>(uses - ring * kStages);
      const uint32_t parity = (next[ring].bits ^ at / kStages) & 1U;
      after.bytes |= ((at % kStages + static_cast<uint32_t>(ring * kStages)) * 8 + parity)
                     << (8 * ring);
    }
    next = after;
  }
};

/// A use of a ring's slots: the first, second, ... since the kernel began.
/// @tparam kStages  slots of the ring
template <int kStages>
struct RingUse {
  static_assert((kStages & (kStages - 1)) == 0, "numbers go on beyond 2^32");
  uint32_t number = 0;
  VSA_HOST_DEVICE constexpr uint32_t slot() const { return number % kStages; }
  VSA_HOST_DEVICE constexpr uint32_t parity() const { return number / kStages % 2; }
  VSA_HOST_DEVICE constexpr RingUse next() const { return {number + 1}; }
};

}  // namespace vsa::cuda::sm90
