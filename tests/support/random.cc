#include "tests/support/random.h"

#include <cmath>
#include <numbers>
#include <random>

namespace vsa::test {

std::vector<double> normal(int64_t n, uint64_t seed) {
  // Box-Muller over mt19937_64: std::normal_distribution differs between standard libraries.
  std::mt19937_64 bits(seed);
  const auto uniform = [&bits] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };
  std::vector<double> x(static_cast<size_t>(n));
  for (double& v : x) {
    v = std::sqrt(-2.0 * std::log(uniform())) * std::cos(2.0 * std::numbers::pi * uniform());
  }
  return x;
}

}  // namespace vsa::test
