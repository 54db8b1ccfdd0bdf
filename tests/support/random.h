// Seeded test data.
#pragma once

#include <cstdint>
#include <vector>

namespace vsa::test {

/// n numbers from N(0, 1); the same for the same seed everywhere.
std::vector<double> normal(int64_t n, uint64_t seed);

}  // namespace vsa::test
