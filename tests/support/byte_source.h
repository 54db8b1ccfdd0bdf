// Turns a string of bytes, random or chosen by a fuzzer, into decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace vsa::test {

/// Reads decisions from the bytes in order. Past their end every byte is 0, and 0 always means the
/// harmless choice, so a short input is a plain valid call.
class ByteSource {
 public:
  explicit ByteSource(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t byte() { return next_ < bytes_.size() ? bytes_[next_++] : uint8_t{0}; }
  bool done() const { return next_ >= bytes_.size(); }

  /// 0 to n - 1, n <= 256.
  int64_t below(int64_t n) { return byte() % n; }
  /// True for one byte in n; never for 0.
  bool one_in(int n) { return byte() % n == n - 1; }

  int64_t any_int64() {
    uint64_t x = 0;
    for (int i = 0; i < 8; ++i) x = x << 8 | byte();
    return static_cast<int64_t>(x);
  }

  /// Mostly `right`; one time in `n` a number that breaks careless arithmetic.
  int64_t spoiled(int64_t right, int n) {
    if (!one_in(n)) return right;
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    switch (below(12)) {
      case 0:
        return 0;
      case 1:
        return -1;
      case 2:
        return right < kMax ? right + 1 : right;
      case 3:
        return right > -kMax ? right - 1 : right;
      case 4:
        return kMax;
      case 5:
        return -kMax - 1;
      case 6:
        return kMax / 2 + 1;
      case 7:
        return int64_t{1} << 32;
      case 8:
        return int64_t{1} << 31;
      case 9:
        return 1;
      case 10:
        return right > -kMax ? -right : right;
      default:
        return any_int64();
    }
  }
  int32_t spoiled32(int32_t right, int n) { return static_cast<int32_t>(spoiled(right, n)); }

 private:
  std::span<const uint8_t> bytes_;
  size_t next_ = 0;
};

}  // namespace vsa::test
