// Arbitrary calls of the C ABI: each is done or refused, and writes nothing but its outputs.
#include "tests/support/hostile_call.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace vsa::test {
namespace {

std::vector<uint8_t> random_bytes(uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<uint8_t> bytes(2000);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(bits());
  return bytes;
}

// A seed for every thirty calls: shrinking bytes would not make a call easier to read.
RC_GTEST_PROP(HostileCall, IsDoneOrRefused, ()) {
  const uint64_t seed = *rc::gen::noShrink(rc::gen::resize(100, rc::gen::arbitrary<uint64_t>()));
  for (uint64_t i = 0; i < 30; ++i) {
    const HostileOutcome outcome = hostile_call(random_bytes(seed + i));
    RC_LOG() << outcome.operation << ", bytes of seed " << seed + i << "\n";
    RC_ASSERT(outcome.fault == "");
  }
}

// Else the property above would hold for calls that are all refused.
TEST(HostileCall, EveryOperationIsMetDoneAndRefused) {
  std::map<std::string, std::map<bool, int>> met;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const HostileOutcome outcome = hostile_call(random_bytes(seed));
    ++met[outcome.operation][outcome.status == VSA_OK];
  }
  EXPECT_EQ(met.size(), static_cast<size_t>(kNumHostileOperations));
  for (const auto& [operation, outcomes] : met) {
    EXPECT_EQ(outcomes.size(), 2U) << operation;
    for (const auto& [done, count] : outcomes) {
      EXPECT_GE(count, 5) << operation << (done ? " done" : " refused");
    }
  }
}

TEST(HostileCall, NoBytesAreAPlainValidCall) {
  EXPECT_EQ(hostile_call({}).status, VSA_OK) << vsa_last_error();
}

}  // namespace
}  // namespace vsa::test
