// wgmma with A in registers or in shared memory, B in shared memory and fp32 accumulators.
// Device-only.
//
// Operands in shared memory consist of slabs of 64 rows x 64 elements (128 bytes), 8 KiB each, in
// the 128-byte swizzle: 16-byte piece c of row r is at r * 128 + ((c ^ (r % 8)) * 16). A TMA copy
// of a box of 64 elements a row writes this layout. descriptor.h encodes it.
#pragma once

#include <type_traits>

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/support/half_type.h"

namespace vsa::cuda::sm90 {

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending of the most recent groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps ptxas from moving the computation of `x` behind the next wgmma_wait, where it would no
/// longer overlap with the products that are waited for. The instruction guarded by x < 0 has no
/// effect, but ptxas does not know this.
__device__ __forceinline__ void finish_before_wait(float x) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p nanosleep.u32 0;\n}\n" ::"f"(x)
               : "memory");
}

/// Tells the compiler that these registers change here. wgmma reads and writes registers
/// asynchronously; this keeps the compiler from moving accesses to them across the start of a
/// product or a wait.
template <int kCount>
__device__ __forceinline__ void fence_registers(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void fence_registers(uint32_t (&registers)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(registers[i][j])::"memory");
  }
}

// Operand lists of inline PTX: VSA_O* are 8 or 32 outputs, VSA_F* 8 or 32 operands that are read
// and written, VSA_REGS_* the placeholders for them.
#define VSA_O8(d, i)                                                                          \
  "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3]), "=f"(d[i + 4]), "=f"(d[i + 5]), \
      "=f"(d[i + 6]), "=f"(d[i + 7])
#define VSA_O32(d, i) VSA_O8(d, i), VSA_O8(d, i + 8), VSA_O8(d, i + 16), VSA_O8(d, i + 24)
#define VSA_F8(d, i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define VSA_F32(d, i) VSA_F8(d, i), VSA_F8(d, i + 8), VSA_F8(d, i + 16), VSA_F8(d, i + 24)
#define VSA_REGS_0_31                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VSA_REGS_32_63                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/// d += a * b with m64n64k16. kTransposed: B lies in memory as [k 16][n 64], else as [n 64][k 16].
#define VSA_WGMMA_N64(NAME, TYPE)                                                                 \
  template <int kTransposed>                                                                      \
  __device__ __forceinline__ void NAME(float(&d)[32], const uint32_t(&a)[4], uint64_t b,          \
                                       int accumulate) {                                          \
    asm volatile(                                                                                 \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                              \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" VSA_REGS_0_31            \
        "}, "                                                                                     \
        "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"                                           \
        : VSA_F32(d, 0)                                                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposed)); \
  }
/// The same with m64n128k16; the 128 columns of B are two slabs.
#define VSA_WGMMA_N128(NAME, TYPE)                                                                \
  template <int kTransposed>                                                                      \
  __device__ __forceinline__ void NAME(float(&d)[64], const uint32_t(&a)[4], uint64_t b,          \
                                       int accumulate) {                                          \
    asm volatile(                                                                                 \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                              \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" VSA_REGS_0_31           \
        ", " VSA_REGS_32_63 "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}\n"                    \
        : VSA_F32(d, 0), VSA_F32(d, 32)                                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposed)); \
  }

/// d = a * b with m64n64k16, B as [n 64][k 16]. d is an output alone: as an operand that is read,
/// too, its old value would need registers of its own while other products are running.
#define VSA_WGMMA_FIRST_N64(NAME, TYPE)                                                    \
  __device__ __forceinline__ void NAME(float(&d)[32], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                          \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                         \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" VSA_REGS_0_31     \
        "}, "                                                                              \
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"                                      \
        : VSA_O32(d, 0)                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                             \
  }
/// The same with A in shared memory, as [m 64][k 16].
#define VSA_WGMMA_SHARED_FIRST_N64(NAME, TYPE)                                         \
  __device__ __forceinline__ void NAME(float(&d)[32], uint64_t a, uint64_t b) {        \
    asm volatile(                                                                      \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                     \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" VSA_REGS_0_31 \
        "}, %32, %33, p, 1, 1, 0, 0;\n}\n"                                             \
        : VSA_O32(d, 0)                                                                \
        : "l"(a), "l"(b));                                                             \
  }
/// d += a * b with m64n64k16 and A in shared memory, as [m 64][k 16].
#define VSA_WGMMA_SHARED_N64(NAME, TYPE)                                                        \
  __device__ __forceinline__ void NAME(float(&d)[32], uint64_t a, uint64_t b, int accumulate) { \
    asm volatile(                                                                               \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" VSA_REGS_0_31          \
        "}, %32, %33, p, 1, 1, 0, 0;\n}\n"                                                      \
        : VSA_F32(d, 0)                                                                         \
        : "l"(a), "l"(b), "r"(accumulate));                                                     \
  }

VSA_WGMMA_N64(wgmma_bf16, "bf16")
VSA_WGMMA_N64(wgmma_f16, "f16")
VSA_WGMMA_N128(wgmma_bf16, "bf16")
VSA_WGMMA_N128(wgmma_f16, "f16")
VSA_WGMMA_FIRST_N64(wgmma_first_bf16, "bf16")
VSA_WGMMA_FIRST_N64(wgmma_first_f16, "f16")
VSA_WGMMA_SHARED_FIRST_N64(wgmma_shared_first_bf16, "bf16")
VSA_WGMMA_SHARED_FIRST_N64(wgmma_shared_first_f16, "f16")
VSA_WGMMA_SHARED_N64(wgmma_shared_bf16, "bf16")
VSA_WGMMA_SHARED_N64(wgmma_shared_f16, "f16")

#undef VSA_WGMMA_N64
#undef VSA_WGMMA_N128
#undef VSA_WGMMA_SHARED_N64
#undef VSA_F8
#undef VSA_F32
#undef VSA_REGS_0_31
#undef VSA_REGS_32_63

/// d += a * b for the type T; d has the elements of 64 or 128 columns.
template <class T, int kTransposed, int kCount>
__device__ __forceinline__ void wgmma(float (&d)[kCount], const uint32_t (&a)[4], uint64_t b,
                                      int accumulate) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    wgmma_bf16<kTransposed>(d, a, b, accumulate);
  } else {
    wgmma_f16<kTransposed>(d, a, b, accumulate);
  }
}
/// d = a * b, B as [n 64][k 16].
template <class T>
__device__ __forceinline__ void wgmma_first(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    wgmma_first_bf16(d, a, b);
  } else {
    wgmma_first_f16(d, a, b);
  }
}
/// d = a * b, A and B in shared memory.
template <class T>
__device__ __forceinline__ void wgmma_shared_first(float (&d)[32], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    wgmma_shared_first_bf16(d, a, b);
  } else {
    wgmma_shared_first_f16(d, a, b);
  }
}

/// d += a * b with A in shared memory.
template <class T>
__device__ __forceinline__ void wgmma_shared(float (&d)[32], uint64_t a, uint64_t b,
                                             int accumulate) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    wgmma_shared_bf16(d, a, b, accumulate);
  } else {
    wgmma_shared_f16(d, a, b, accumulate);
  }
}

}  // namespace vsa::cuda::sm90
