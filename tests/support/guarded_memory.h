// Memory for calls that may be hostile: whatever is written outside the outputs is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "vsa/tensor.h"

namespace vsa::test {

/// Blocks with guard bands, or of exact size under AddressSanitizer, which guards them itself.
class GuardedMemory {
 public:
  /// A block of `size` bytes, filled with a repeated byte.
  std::byte* allocate(int64_t size, std::byte fill);
  /// Some block of at least `size` bytes handed out before; null if there is none.
  std::byte* share(int64_t size);

  /// Remembers all bytes.
  void remember();
  /// Forgets what changed inside the elements of an output, and the same for plain memory.
  void accept(const Tensor& output);
  void accept(const void* data, int64_t size);
  /// True if nothing changed that was not accepted.
  bool as_remembered() const;

 private:
  struct Block {
    std::vector<std::byte> bytes;
    std::vector<std::byte> before;
    std::byte* data = nullptr;
    int64_t size = 0;
  };
  Block* block_of(const void* address);
  std::deque<Block> blocks_;
};

}  // namespace vsa::test
