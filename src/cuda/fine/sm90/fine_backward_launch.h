// The frame of both kernels of the fine backward: barriers, roles of warps, launch. Device-only.
//
//   warps 0, 1           producers, one for each stream (fine_backward_producer.h)
//   warps 4-7, 8-11      consumers: one block each of the side that is owned
//
// Persistent: one CTA on each multiprocessor. Its streams share nothing; each takes item after item
// from a queue, heads outermost, because lists differ in length. Who computes an item does not
// change its bits.
//
// dk and dv start on multiprocessors where dq has no item left, without waiting for it: they read
// nothing that dq writes, and write nothing that it reads. What came before dq they may read: dq is
// launched without overlap, so all of that had ended and was visible before its first CTA began,
// and none of theirs begins before each of dq's has. But each of their CTAs ends after dq, for
// whatever follows on the stream only waits for them.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_kernel.h"
#include "src/cuda/fine/sm90/fine_backward_producer.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda::sm90 {

// 64512 registers are 384 x 168; 128 x 24 + 256 x 240 and 128 x 56 + 256 x 224 are the same.
inline constexpr int kBackwardThreads = 384;
template <int kHeadDim>
inline constexpr int kBackwardProducerRegisters = kHeadDim == 128 ? 24 : 56;
template <int kHeadDim>
inline constexpr int kBackwardConsumerRegisters = kHeadDim == 128 ? 240 : 224;

/// @param slot_arrivals  of each consuming warp, once it is done with a slot
template <int kHeadDim, int kConsumers>
__device__ __forceinline__ void init_barriers(BackwardSmem<kHeadDim, kConsumers>& smem,
                                              uint32_t slot_arrivals) {
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  const auto init = [](uint64_t& full, uint64_t& empty, uint32_t arrivals) {
    barrier_init(smem_address(&full), 1);
    barrier_init(smem_address(&empty), kConsumers * kWarpsPerConsumer * arrivals);
  };
  for (typename Smem::Stream& s : smem.stream) {
    init(s.full_own, s.empty_own, 1);
    for (uint32_t i = 0; i < Smem::kFirstStages; ++i) {
      init(s.full_first[i], s.empty_first[i], slot_arrivals);
    }
    for (uint32_t i = 0; i < Smem::kSecondStages; ++i) {
      init(s.full_second[i], s.empty_second[i], slot_arrivals);
    }
  }
  fence_barrier_init();
}

template <template <class, int, int> class Consumer, bool kOwnsKeys, class T, int kHeadDim,
          int kConsumers>
__global__ void __launch_bounds__(kBackwardThreads, 1)
    fine_bwd_kernel(const __grid_constant__ FineBackwardParams params) {
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  // What the driver reserves below is 1 KiB, so that this is a multiple of 1 KiB.
  extern __shared__ __align__(Smem::kAlignment) uint8_t raw[];
  Smem& smem = *reinterpret_cast<Smem*>(raw);
  using Consuming = Consumer<T, kHeadDim, kConsumers>;
  if (threadIdx.x == 0) init_barriers(smem, Consuming::kSlotArrivals);
  __syncthreads();

  const uint32_t warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == 0) {
    give_registers<kBackwardProducerRegisters<kHeadDim>>();
    const uint32_t warp = uniform(threadIdx.x / 32);
    if (warp < Smem::kStreams) {
      BackwardProducer<kHeadDim, kConsumers, kOwnsKeys>(params, smem, warp).run(warp);
    } else if constexpr (kOwnsKeys) {
      cudaGridDependencySynchronize();  // ends after dq
    } else {
      cudaTriggerProgrammaticLaunchCompletion();  // dk and dv may start
    }
  } else {
    take_registers<kBackwardConsumerRegisters<kHeadDim>>();
    Consuming(params, smem, warpgroup - 1).run();
  }
}

template <template <class, int, int> class Consumer, bool kOwnsKeys, class T, int kHeadDim,
          int kConsumers>
Status launch_backward(const FineBackwardParams& params, const KernelLaunch& how) {
  constexpr int kBytes = sizeof(BackwardSmem<kHeadDim, kConsumers>);
  static_assert(kBytes <= 232448, "a CTA has at most 227 KiB");
  const int pairs = (params.num_items + 1) / 2;
  return launch(
      how.at, fine_bwd_kernel<Consumer, kOwnsKeys, T, kHeadDim, kConsumers>,
      {.grid = dim3(static_cast<unsigned>(pairs < how.at.num_sms ? pairs : how.at.num_sms)),
       .block = dim3(kBackwardThreads),
       .smem_bytes = kBytes,
       .overlaps_previous = kOwnsKeys},
      params);
}

/// With the consumer for dtype and head_dim; two share a stream where blocks come in pairs.
template <template <class, int, int> class Consumer, bool kOwnsKeys>
Status launch_backward(const FineBackwardParams& params, const KernelLaunch& how) {
  const PlanShape& own = kOwnsKeys ? params.kv.plan : params.q.plan;
  const auto with_type = [&]<class T>() {
    const auto with_head_dim = [&]<int kHeadDim>() {
      return own.blocks_per_tile % 2 == 0
                 ? launch_backward<Consumer, kOwnsKeys, T, kHeadDim, 2>(params, how)
                 : launch_backward<Consumer, kOwnsKeys, T, kHeadDim, 1>(params, how);
    };
    return how.head_dim == 128 ? with_head_dim.template operator()<128>()
                               : with_head_dim.template operator()<64>();
  };
  return how.dtype == DType::kBF16 ? with_type.template operator()<__nv_bfloat16>()
                                   : with_type.template operator()<__half>();
}

}  // namespace vsa::cuda::sm90
