// How the forward fine kernel divides shared memory and deals out query blocks.
#include "src/cuda/sm90/fine_params.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace vsa::cuda::sm90 {
namespace {

template <int kHeadDim>
void expect_divided() {
  using Smem = FineSmem<kHeadDim>;
  EXPECT_LE(sizeof(Smem) + Smem::kAlignment, size_t{227} << 10);  // of a CTA
  // The pattern of a swizzled buffer starts at a multiple of 1 KiB.
  EXPECT_EQ(Smem::kBufferBytes % 1024, 0);
  EXPECT_EQ(offsetof(Smem, q), 0U);
  EXPECT_EQ(offsetof(Smem, k) % 1024, 0U);
  EXPECT_EQ(offsetof(Smem, v) % 1024, 0U);
  for (const size_t barriers :
       {offsetof(Smem, full_k), offsetof(Smem, empty_v), offsetof(Smem, meet)}) {
    EXPECT_EQ(barriers % 8, 0U);
  }
}

TEST(FineSmem, FitsAndIsAligned) {
  expect_divided<64>();
  expect_divided<128>();
}

/// Every half of every item goes to one consumer of one CTA.
template <int kHeadDim>
void expect_every_half_once(int32_t num_items, uint32_t num_ctas) {
  using U = Unit<kHeadDim>;
  std::set<std::pair<int32_t, int>> seen;
  for (uint32_t cta = 0; cta < num_ctas; ++cta) {
    for (int consumer = 0; consumer < U::kConsumers; ++consumer) {
      for (int32_t unit = U::first(cta, consumer, num_ctas); unit < U::count(num_items);
           unit += U::stride(num_ctas)) {
        EXPECT_TRUE(seen.insert({U::item(unit), U::half(unit, consumer)}).second);
      }
    }
  }
  EXPECT_EQ(std::ssize(seen), 2 * num_items);
}

/// No CTA has two units while another has none.
void expect_even_ctas(int32_t num_items, int32_t num_sms) {
  using U = Unit<64>;
  const auto num_ctas = static_cast<uint32_t>(std::min(U::count(num_items), num_sms));
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t most = 0;
  for (uint32_t cta = 0; cta < num_ctas; ++cta) {
    int32_t units = 0;
    for (int consumer = 0; consumer < U::kConsumers; ++consumer) {
      for (int32_t unit = U::first(cta, consumer, num_ctas); unit < U::count(num_items);
           unit += U::stride(num_ctas)) {
        ++units;
      }
    }
    least = std::min(least, units);
    most = std::max(most, units);
  }
  EXPECT_LE(most - least, 1) << num_items << " items on " << num_sms;
}

TEST(FineUnits, EveryHalfGoesToOneConsumer) {
  for (int32_t num_items = 1; num_items < 300; ++num_items) {
    for (const uint32_t num_ctas : {1U, 2U, 78U, 132U}) {
      expect_every_half_once<64>(num_items, num_ctas);
      expect_every_half_once<128>(num_items, num_ctas);
      expect_even_ctas(num_items, static_cast<int32_t>(num_ctas));
    }
  }
}

/// Schedule::status lets fewer than 2^29 items pass.
TEST(FineUnits, GoingOnBeyondTheLastStaysWithin32Bits) {
  constexpr int32_t kMost = (1 << 29) - 1;
  const int64_t last = Unit<64>::count(kMost) - 1;
  EXPECT_LE(last + Unit<64>::stride(1024), std::numeric_limits<int32_t>::max());
}

}  // namespace
}  // namespace vsa::cuda::sm90
