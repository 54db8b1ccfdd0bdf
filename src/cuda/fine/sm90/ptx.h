// One inline function for each special instruction of the fine kernels: mbarriers, TMA copies,
// ldmatrix, mma.sync, setmaxnreg; wgmma is in wgmma.h. Device-only.
//
// The rules of each instruction are in the PTX ISA manual under its name: mbarrier, fence,
// cp.async.bulk, cp.async.bulk.tensor, ldmatrix, mma, setmaxnreg.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

namespace vsa::cuda::sm90 {

__device__ __forceinline__ uint32_t smem_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// Returns x. The compiler cannot see how it was computed, so it keeps the value in a register
/// instead of computing it again at every use.
template <class Int>
__device__ __forceinline__ Int hide_from_compiler(Int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// threadIdx.x, read from the special register at every call, so that neither it nor what is
/// computed from it occupies a register between calls.
__device__ __forceinline__ uint32_t thread_idx() {
  uint32_t x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

/// gridDim.x, likewise read at every call.
__device__ __forceinline__ uint32_t grid_dim() {
  uint32_t x;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(x));
  return x;
}

/// The value of lane 0, for an x that is the same in all lanes: it tells the compiler so, which
/// then keeps it in a uniform register.
__device__ __forceinline__ uint32_t warp_uniform(uint32_t x) { return __shfl_sync(~0U, x, 0); }

// --- mbarrier ------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the async proxy, that is to TMA.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives `count` times on a barrier.
__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t count = 1) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

/// Loads a word that the previous kernel on the stream may still have been writing when this kernel
/// started (pdl.h). The load is volatile and does not use the read-only cache, so that the compiler
/// cannot move it before pdl_wait.
__device__ __forceinline__ uint32_t load_global(const uint32_t* from) {
  uint32_t word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}

/// Arrives once for the whole warp, after all of its lanes are done with what the barrier guards.
__device__ __forceinline__ void warp_arrive(uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

/// Adds the bytes of a copy that is about to start to what the barrier's current phase waits for.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// Waits until the phase with this parity is complete.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Whether the phase with this parity is complete. The instruction may first wait for a limited
/// time.
__device__ __forceinline__ bool barrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// --- copies --------------------------------------------------------------------------------------

struct Box {
  int32_t d, w, h, f, u;  ///< coordinates of the box's first element
};

/// Starts a TMA copy of one box to shared memory, which completes its bytes on the barrier.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, const Box& at,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(at.d), "r"(at.w), "r"(at.h), "r"(at.f), "r"(at.u)
      : "memory");
}

/// Starts a bulk copy to shared memory, which completes its bytes on the barrier. `bytes` and both
/// addresses are multiples of 16.
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, uint32_t bytes,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Orders ordinary writes to shared memory before later accesses of the async proxy: reads by wgmma
/// and writes by TMA.
__device__ __forceinline__ void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- shared memory -------------------------------------------------------------------------------

__device__ __forceinline__ uint64_t load_shared64(uint32_t address) {
  uint64_t x;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(x) : "r"(address) : "memory");
  return x;
}
__device__ __forceinline__ void store_zero16(uint32_t address) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

/// Loads four 8x8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix
/// number l / 8.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// --- mma.sync ------------------------------------------------------------------------------------

/// d += a * b with m16n8k16: a and b in the type T, d in fp32.
template <class T>
__device__ __forceinline__ void warp_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
#define VSA_WARP_MMA(TYPE)                                                            \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    VSA_WARP_MMA("bf16");
  } else {
    VSA_WARP_MMA("f16");
  }
#undef VSA_WARP_MMA
}

// --- registers -----------------------------------------------------------------------------------

/// Gives up registers of this warpgroup, down to kCount for a thread.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
/// Waits for registers that others gave up, until each thread of this warpgroup has kCount.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// 2^x and log2(x) in one instruction each; subnormal numbers count as 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace vsa::cuda::sm90
