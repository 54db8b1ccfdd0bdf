// Memory for packed tensors and scratch. Host-only.
#include "src/cpu/support/float_buffer.h"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace vsa::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

FloatBuffer::FloatBuffer(int64_t size) {
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
  // aligned_alloc would want a multiple of the alignment.
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // madvise is a hint: without huge pages everything works as well. The incomplete huge page at the
  // end is left out, so that no more memory is used than was asked for.
  if (alignment == kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  data_.reset(static_cast<float*>(memory));
}

void FloatBuffer::Free::operator()(float* p) const { std::free(p); }

}  // namespace vsa::cpu
