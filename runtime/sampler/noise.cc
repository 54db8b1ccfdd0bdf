// Gaussian noise that is a function of (seed, stream, index) and nothing else. Host-only.
//
// Compiled without contraction to fused multiply-adds (runtime/CMakeLists.txt): those would give
// other last bits on machines that have them.
#include "runtime/sampler/noise.h"

#include <cmath>

namespace vsa::sampler {
namespace {

constexpr uint32_t lo(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t hi(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

/// ln x for 0 < x <= 1, within 1e-15 relative: x = 2^e m, sqrt(1/2) <= m < sqrt(2), and
/// ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716, by its series to s^19 (the next term is
/// below 2e-17).
double natural_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact; m in [1/2, 1)
  if (m < 0.70710678118654752) {
    m *= 2.0;
    exponent -= 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double series = 0.0;
  for (int n = 19; n >= 3; n -= 2) series = (series + 1.0 / n) * s2;
  return exponent * 0.69314718055994531 + 2.0 * s * (1.0 + series);
}

struct CosSin {
  double cos = 1.0;
  double sin = 0.0;
};

/// cos and sin of 2 pi u, 0 <= u < 1, within 1e-15: u = quarter / 4 + rest, |rest| <= 1/8 (exact),
/// then Taylor series to the 17th power of an angle of at most pi/4 (the next term is below 1e-18).
CosSin cos_sin_of_turn(double u) {
  const double quarter = std::floor(u * 4.0 + 0.5);
  const double a = (u - quarter * 0.25) * 6.2831853071795865;
  const double a2 = a * a;
  double cos_tail = 0.0;
  double sin_tail = 0.0;
  for (int n = 16; n >= 2; n -= 2) cos_tail = (1.0 + cos_tail) * (-a2 / (n * (n - 1.0)));
  for (int n = 17; n >= 3; n -= 2) sin_tail = (1.0 + sin_tail) * (-a2 / (n * (n - 1.0)));
  const double c = 1.0 + cos_tail;
  const double s = a * (1.0 + sin_tail);
  switch (static_cast<int>(quarter) % 4) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

/// Elements 2 * pair and 2 * pair + 1.
std::array<float, 2> normal_pair(uint64_t seed, uint64_t stream, uint64_t pair) {
  const std::array<uint32_t, 4> w =
      philox4x32({lo(pair), hi(pair), lo(stream), hi(stream)}, {lo(seed), hi(seed)});
  const uint64_t bits1 = (uint64_t{w[1]} << 32 | w[0]) >> 11;
  const uint64_t bits2 = (uint64_t{w[3]} << 32 | w[2]) >> 11;
  const double u1 = static_cast<double>(bits1) * 0x1p-53 + 0x1p-54;
  const double u2 = static_cast<double>(bits2) * 0x1p-53;
  const double r = std::sqrt(-2.0 * natural_log(u1));
  const CosSin turn = cos_sin_of_turn(u2);
  return {static_cast<float>(r * turn.cos), static_cast<float>(r * turn.sin)};
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {hi(product1) ^ counter[1] ^ key[0], lo(product1), hi(product0) ^ counter[3] ^ key[1],
               lo(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

void normal(uint64_t seed, uint64_t stream, uint64_t first, std::span<float> out) {
  for (size_t n = 0; n < out.size();) {
    const uint64_t index = first + n;
    const std::array<float, 2> pair = normal_pair(seed, stream, index / 2);
    for (uint64_t j = index % 2; j < 2 && n < out.size(); ++j) out[n++] = pair[j];
  }
}

}  // namespace vsa::sampler
