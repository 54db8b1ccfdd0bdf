// The shared memory of the forward fine kernel, and its units of work.
#include "src/cuda/fine/sm90/fine_params.h"

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
       {offsetof(Smem, full_k), offsetof(Smem, empty_v), offsetof(Smem, pair_barrier)}) {
    EXPECT_EQ(barriers % 8, 0U);
  }
}

TEST(FineSmem, FitsAndIsAligned) {
  expect_divided<64>();
  expect_divided<128>();
}

/// Every half of every item is in exactly one unit, and first_unit gives the lowest numbers.
template <int kHeadDim>
void expect_every_half_once(int32_t num_items, int32_t num_sms) {
  using U = WorkUnit<kHeadDim>;
  const int32_t num_pair_items = U::num_pair_items(num_items, num_sms);
  const int32_t num_units = U::count(num_items, num_pair_items);
  std::set<std::pair<int32_t, int>> seen;
  for (int32_t unit = 0; unit < num_units; ++unit) {
    const int32_t item = U::item(unit, num_pair_items);
    ASSERT_LT(item, num_items);
    if (U::is_pair(unit, num_pair_items)) {
      EXPECT_TRUE(seen.insert({item, 0}).second);
      EXPECT_TRUE(seen.insert({item, 1}).second);
    } else {
      EXPECT_TRUE(seen.insert({item, U::half(unit, num_pair_items)}).second);
    }
  }
  EXPECT_EQ(std::ssize(seen), 2 * num_items);

  const auto num_ctas = static_cast<uint32_t>(std::min(num_units, num_sms));
  std::set<int32_t> first;
  for (uint32_t cta = 0; cta < num_ctas; ++cta) {
    for (int consumer = 0; consumer < (U::kPaired ? 1 : U::kConsumers); ++consumer) {
      first.insert(U::first_unit(cta, consumer, num_ctas));
    }
  }
  EXPECT_EQ(std::ssize(first), U::num_first_units(num_ctas));
  EXPECT_EQ(*first.rbegin(), U::num_first_units(num_ctas) - 1);
}

/// At head_dim 64 units are distributed with a fixed stride: each unit once, and no CTA has two
/// units more than another.
void expect_even_ctas(int32_t num_items, int32_t num_sms) {
  using U = WorkUnit<64>;
  const int32_t num_units = U::count(num_items, 0);
  const auto num_ctas = static_cast<uint32_t>(std::min(num_units, num_sms));
  std::set<int32_t> seen;
  size_t least = std::numeric_limits<size_t>::max();
  size_t most = 0;
  for (uint32_t cta = 0; cta < num_ctas; ++cta) {
    const size_t before = seen.size();
    for (int consumer = 0; consumer < U::kConsumers; ++consumer) {
      for (int32_t unit = U::first_unit(cta, consumer, num_ctas); unit < num_units;
           unit += U::num_first_units(num_ctas)) {
        EXPECT_TRUE(seen.insert(unit).second);
      }
    }
    least = std::min(least, seen.size() - before);
    most = std::max(most, seen.size() - before);
  }
  EXPECT_EQ(std::ssize(seen), num_units);
  EXPECT_LE(most - least, 1U) << num_items << " items on " << num_sms;
}

TEST(FineUnits, HeadDim64IsDistributedEvenly) {
  for (int32_t num_items = 1; num_items < 300; ++num_items) {
    for (const int32_t num_sms : {1, 2, 78, 132}) expect_even_ctas(num_items, num_sms);
  }
}

/// Items of the last round become single halves if they would keep at most half of the
/// multiprocessors busy.
TEST(FineUnits, ItemsOfTheLastRoundAreSplit) {
  using U = WorkUnit<128>;
  EXPECT_EQ(U::num_pair_items(1, 132), 0);
  EXPECT_EQ(U::num_pair_items(66, 132), 0);
  EXPECT_EQ(U::num_pair_items(67, 132), 67);
  EXPECT_EQ(U::num_pair_items(3072, 132), 23 * 132);
  EXPECT_EQ(U::count(3072, 23 * 132), 23 * 132 + 72);
  EXPECT_EQ(U::num_pair_items(264, 132), 264);
  EXPECT_EQ(WorkUnit<64>::num_pair_items(264, 132), 0);
}

TEST(FineUnits, EveryHalfIsInOneUnit) {
  for (int32_t num_items = 1; num_items < 300; ++num_items) {
    for (const int32_t num_sms : {1, 2, 78, 132}) {
      expect_every_half_once<64>(num_items, num_sms);
      expect_every_half_once<128>(num_items, num_sms);
    }
  }
}

/// Schedule::status allows fewer than 2^29 items. Unit numbers pass the last unit by up to two
/// rounds.
template <int kHeadDim>
void expect_units_within_32_bits() {
  using U = WorkUnit<kHeadDim>;
  constexpr int64_t kMost = (1 << 29) - 1;
  EXPECT_LE(U::count(kMost, 0) + int64_t{2} * U::num_first_units(1024),
            std::numeric_limits<int32_t>::max());
}
TEST(FineUnits, NumbersBeyondTheLastUnitFitInto32Bits) {
  expect_units_within_32_bits<64>();
  expect_units_within_32_bits<128>();
}

}  // namespace
}  // namespace vsa::cuda::sm90
