// Matrix descriptors of wgmma and the swizzled layout that they describe. Host and device, so that
// tests compare them with a plain matrix.
#pragma once

#include <cstdint>

#include "src/cuda/plan/block.h"

namespace vsa::cuda::sm90 {

inline constexpr int kSlabElements = 64;                      // 128 bytes of bf16 or fp16
inline constexpr int kRowBytes = 128;                         // of a slab
inline constexpr int kSlabBytes = kBlockTokens * kRowBytes;   // 8 KiB
inline constexpr int kSwizzleRows = 8;                        // period of the pattern
inline constexpr int kGroupBytes = kSwizzleRows * kRowBytes;  // 1 KiB

/// Offset in bytes of the 16-byte piece `piece` (0 to 7) of row `row` within a slab. The slab
/// begins at a multiple of 1 KiB.
VSA_HOST_DEVICE constexpr uint32_t swizzled(uint32_t row, uint32_t piece) {
  return row * kRowBytes + ((piece ^ (row % kSwizzleRows)) * 16);
}

/// @param address  in shared memory, below 2^18
/// @param leading_bytes, stride_bytes  as the PTX manual calls them, multiples of 16
VSA_HOST_DEVICE constexpr uint64_t make_descriptor(uint32_t address, uint32_t leading_bytes,
                                                   uint32_t stride_bytes) {
  constexpr uint64_t kSwizzle128B = uint64_t{1} << 62;
  return uint64_t{(address & 0x3FFFFU) >> 4} | uint64_t{leading_bytes >> 4} << 16 |
         uint64_t{stride_bytes >> 4} << 32 | kSwizzle128B;
}

/// A descriptor that advances within shared memory: only its lower 32 bits, which hold the address,
/// change.
struct Descriptor {
  uint32_t low, high;
  VSA_HOST_DEVICE constexpr explicit Descriptor(uint64_t bits)
      : low(static_cast<uint32_t>(bits)), high(static_cast<uint32_t>(bits >> 32)) {}
  VSA_HOST_DEVICE constexpr uint64_t advanced(uint64_t by) const {
    return uint64_t{high} << 32 | (low + static_cast<uint32_t>(by));
  }
};

/// B = K^T: its columns are the 64 rows of K, and its k dimension runs along the elements of a row.
/// The leading byte offset is not used, as 16 elements (32 bytes) lie within a 128-byte row.
VSA_HOST_DEVICE constexpr uint64_t k_descriptor(uint32_t buffer) {
  return make_descriptor(buffer, 16, kGroupBytes);
}
/// What to add to k_descriptor for k step `step`: 32 bytes a step; after four steps comes the next
/// slab.
VSA_HOST_DEVICE constexpr uint64_t k_advance(int step) {
  return static_cast<uint64_t>((step / 4 * kSlabBytes + step % 4 * 32) >> 4);
}

/// B = V: its columns are the elements of a row of V, 64 in a slab (leading byte offset: to the
/// next slab); its k dimension runs along the rows (stride byte offset: to the next 8 rows).
VSA_HOST_DEVICE constexpr uint64_t v_descriptor(uint32_t buffer) {
  return make_descriptor(buffer, kSlabBytes, kGroupBytes);
}
/// What to add to v_descriptor for k step `step`: 16 rows a step.
VSA_HOST_DEVICE constexpr uint64_t v_advance(int step) {
  return static_cast<uint64_t>((step * 16 * kRowBytes) >> 4);
}

}  // namespace vsa::cuda::sm90
