#include "tests/support/guarded_memory.h"

#include <algorithm>

namespace vsa::test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kGuard = 0;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr int64_t kGuard = 0;
#else
constexpr int64_t kGuard = 64;
#endif
#else
constexpr int64_t kGuard = 64;  // a multiple of the largest vector, so data stays aligned
#endif

}  // namespace

std::byte* GuardedMemory::allocate(int64_t size, std::byte fill) {
  Block& block = blocks_.emplace_back();
  block.bytes.assign(static_cast<size_t>(size + 2 * kGuard), fill);
  block.data = block.bytes.data() + kGuard;
  block.size = size;
  return block.data;
}

std::byte* GuardedMemory::share(int64_t size) {
  const auto fits = [&](const Block& b) { return b.size >= size; };
  const auto block = std::ranges::find_if(blocks_, fits);
  return block != blocks_.end() ? block->data : nullptr;
}

void GuardedMemory::remember() {
  for (Block& block : blocks_) block.before = block.bytes;
}

GuardedMemory::Block* GuardedMemory::block_of(const void* address) {
  const auto holds = [&](const Block& b) { return address >= b.data && address < b.data + b.size; };
  const auto block = std::ranges::find_if(blocks_, holds);
  return block != blocks_.end() ? &*block : nullptr;
}

void GuardedMemory::accept(const void* data, int64_t size) {
  Block* block = block_of(data);
  if (block == nullptr) return;
  const auto offset = static_cast<const std::byte*>(data) - block->bytes.data();
  std::copy_n(block->bytes.begin() + offset, size, block->before.begin() + offset);
}

void GuardedMemory::accept(const Tensor& t) {
  if (t.empty()) return;
  const int64_t size = size_bytes(t.dtype);
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    for (int64_t h = 0; h < t.shape[1]; ++h) {
      for (int64_t s = 0; s < t.shape[2]; ++s) {
        const int64_t row = b * t.stride[0] + h * t.stride[1] + s * t.stride[2];
        accept(static_cast<const std::byte*>(t.data) + row * size, t.shape[3] * size);
      }
    }
  }
}

bool GuardedMemory::as_remembered() const {
  return std::ranges::all_of(blocks_, [](const Block& b) { return b.bytes == b.before; });
}

}  // namespace vsa::test
