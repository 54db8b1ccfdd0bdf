// A float array on a cache line, uninitialised. Host-only.
#include "runtime/nn/buffer.h"

#include <sys/mman.h>

#include <new>

namespace vsa::nn {
namespace {

constexpr std::align_val_t kAlignment{64};

// From this size on a buffer has a mapping of its own, whose memory is returned to the system when
// it is freed. On the heap, a small object between two freed weights would keep their memory from
// being used again as a whole.
constexpr size_t kOwnMapping = 4 << 20;

size_t num_bytes(int64_t size) { return static_cast<size_t>(size) * sizeof(float); }

float* allocate(int64_t size) {
  const size_t bytes = num_bytes(size);
  if (bytes < kOwnMapping) return static_cast<float*>(::operator new(bytes, kAlignment));
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<float*>(memory);
}

}  // namespace

Buffer::Buffer(int64_t size) : size_(size), data_(allocate(size), FreeBuffer{size}) {}

void FreeBuffer::operator()(float* p) const {
  if (num_bytes(size) < kOwnMapping) {
    ::operator delete(p, kAlignment);
  } else {
    ::munmap(p, num_bytes(size));
  }
}

}  // namespace vsa::nn
