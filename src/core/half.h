// bf16 and fp16 as 16-bit patterns, converted to and from float with round-to-nearest-even.
// Host-only.
#pragma once

#include <bit>
#include <cstdint>

namespace vsa {

struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    if ((u & 0x7FFFFFFFU) > 0x7F800000U) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40U);  // keep NaN a NaN: set a mantissa bit
    } else {
      bits = static_cast<uint16_t>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

// clang 14 has _Float16 on few targets, g++ 12 not on Arm; both have this storage type there.
#if defined(__clang__) || (defined(__aarch64__) && __GNUC__ < 13)
using Float16 = __fp16;
#else
using Float16 = _Float16;
#endif

/// IEEE binary16; the compiler's own type does the rounding.
struct F16 {
  Float16 value = 0;
  F16() = default;
  explicit F16(float x) : value(static_cast<Float16>(x)) {}
  explicit operator float() const { return static_cast<float>(value); }
};
static_assert(sizeof(BF16) == 2 && sizeof(F16) == 2);

}  // namespace vsa
