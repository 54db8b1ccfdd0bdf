// bf16 and fp16 as 16-bit patterns, converted to and from float with round-to-nearest-even.
// Host-only.
//
// Plain integers and floats: compilers differ in which 16-bit types they know on which machine.
#pragma once

#include <bit>
#include <cstdint>

namespace vsa {

/// bfloat16: the upper half of a float.
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
  static BF16 from_bits(uint16_t bits) {
    BF16 x;
    x.bits = bits;
    return x;
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE binary16.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000U);
    const uint32_t magnitude = u & 0x7FFFFFFFU;
    uint32_t rounded = 0;
    if (magnitude > 0x7F800000U) {
      rounded = 0x7E00U | (magnitude >> 13 & 0x3FFU);  // a NaN, and a quiet one
    } else if (magnitude >= 0x477FF000U) {
      rounded = 0x7C00U;  // 65520 and more: infinity
    } else if (magnitude >= 0x38800000U) {
      // Normal: the exponent's bias shrinks by 112, 13 bits are rounded away.
      rounded = (magnitude - (112U << 23) + 0xFFFU + (magnitude >> 13 & 1U)) >> 13;
    } else {
      // Subnormal, a multiple of 2^-24: added to 0.5, whose last bit is worth that, it is rounded.
      const float sum = std::bit_cast<float>(magnitude) + 0.5F;
      rounded = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5F);
    }
    bits = static_cast<uint16_t>(sign | rounded);
  }
  static F16 from_bits(uint16_t bits) {
    F16 x;
    x.bits = bits;
    return x;
  }
  explicit operator float() const {
    // In a float's fields a half is off by the difference of the two exponent biases, 112. The
    // multiplication also normalises subnormals; only inf and NaN need their exponent set.
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFU) << 13;
    float value = std::bit_cast<float>(magnitude) * 0x1p112F;
    if (magnitude >= 0x0F800000U) value = std::bit_cast<float>(magnitude | 0x7F800000U);
    if (magnitude > 0x0F800000U) value = std::bit_cast<float>(magnitude | 0x7FC00000U);
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
};
static_assert(sizeof(BF16) == 2 && sizeof(F16) == 2);

}  // namespace vsa
