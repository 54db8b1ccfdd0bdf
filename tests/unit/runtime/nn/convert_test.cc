// Every 16-bit pattern to f32 and back, and what lies at odd addresses.
#include "runtime/nn/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/weights.h"

namespace vsa::nn {
namespace {

constexpr auto kF16 = io::StorageType::kF16;
constexpr auto kBF16 = io::StorageType::kBF16;

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> patterns(1 << 16);
  std::iota(patterns.begin(), patterns.end(), uint16_t{0});
  return patterns;
}

float reference(io::StorageType type, uint16_t bits) {
  return type == kF16 ? static_cast<float>(F16::from_bits(bits))
                      : static_cast<float>(BF16::from_bits(bits));
}

TEST(Convert, EveryPatternBecomesItsNumberAndGoesBack) {
  const std::vector<uint16_t> patterns = all_patterns();
  for (const io::StorageType type : {kF16, kBF16}) {
    std::vector<float> wide(patterns.size());
    widen_parallel(type, reinterpret_cast<const std::byte*>(patterns.data()), std::ssize(wide),
                   1.0F, wide.data());
    std::vector<uint16_t> back(patterns.size());
    narrow_parallel(type, wide.data(), std::ssize(wide), reinterpret_cast<std::byte*>(back.data()));
    for (size_t i = 0; i < patterns.size(); ++i) {
      const float want = reference(type, patterns[i]);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(wide[i])) << i;
        EXPECT_TRUE(std::isnan(reference(type, back[i]))) << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(want)) << i;
        EXPECT_EQ(back[i], patterns[i]);
      }
    }
  }
}

TEST(Convert, AnyLengthAndAddress) {
  for (const io::StorageType type : {kF16, kBF16, io::StorageType::kF32, io::StorageType::kF64}) {
    for (const int64_t n : {0, 1, 7, 16, 33}) {
      const std::vector<float> x = test::normal_f32(n, 1);
      std::vector<std::byte> bytes = test::stored(x, type);
      bytes.insert(bytes.begin(), std::byte{0x5A});
      std::vector<float> got(static_cast<size_t>(n) + 1, -7.0F);
      widen(type, bytes.data() + 1, n, 2.0F, got.data());
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], 2.0F * test::rounded_to(x[i], type));
      EXPECT_EQ(got.back(), -7.0F);
    }
  }
}

TEST(Convert, ValuesOfAnEmptyWeightAreNone) { EXPECT_TRUE(values({}).empty()); }

}  // namespace
}  // namespace vsa::nn
