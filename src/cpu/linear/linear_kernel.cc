// A block of rows times a packed block of columns. Host-only.
#include "src/cpu/linear/linear_kernel.h"

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/linear/linear_kernel.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void MultiplyPacked(const float* x, int64_t m, int64_t k, const float* packed, int64_t cols,
                    float* sums) {
  Gemm({.data = x, .row_stride = k}, m, {.data = packed, .k = k, .cols = cols}, sums, cols,
       Store::kOverwrite);
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {

HWY_EXPORT(MultiplyPacked);
void multiply_packed(const float* x, int64_t m, int64_t k, const float* packed, int64_t cols,
                     float* sums) {
  VSA_CPU_DISPATCH(MultiplyPacked)(x, m, k, packed, cols, sums);
}

}  // namespace vsa::cpu
#endif
