// The kernel template of both backward fine kernels: barriers, roles of the warps, launch.
// Device-only.
//
//   owned side: q, dout (or k, v)      streamed side: k, v (or q, dout, with lse and delta)
//        | TMA, once for each item          | TMA, a ring of slots for each tensor
//        v                                  v
//   consumer warpgroups: s, dp by wgmma -> p, ds in registers -> dq (or dk, dv) by wgmma
//        v
//   epilogue: times scale, plus the gradient of pooling -> global memory in the caller's layout
//
//   warps 0, 1           producers, one for each stream (fine_backward_producer.h); a CTA with one
//                        stream has only warp 0
//   the others to 3      programmatic dependent launch, see below
//   warps 4-7, 8-11      consumers, which own one block each (fine_dq_consumer.h and
//                        fine_dkv_consumer.h)
//
// fine_backward_params.h has the shared memory plan and the barriers.
//
// The kernels are persistent, with one CTA on each multiprocessor. The streams of a CTA are
// independent: each takes its items from a queue, because lists differ in length. The items of one
// head are neighbours in the queue, so that all CTAs find the streamed blocks of this head in L2.
// Which CTA computes an item does not change its bits.
//
// Programmatic dependent launch: the dk, dv kernel starts on multiprocessors where the dq kernel
// has no item left, and does not wait for it.
//   - Neither kernel reads or writes what the other one writes.
//   - dk, dv may read whatever precedes dq on the CUDA stream. It was complete before the first CTA
//     of dq began, as dq is launched without overlap, and no CTA of dk, dv starts before every CTA
//     of dq has called cudaTriggerProgrammaticLaunchCompletion.
//   - Whatever follows on the CUDA stream waits for the dk, dv kernel alone, so each CTA of dk, dv
//     waits for the end of the dq kernel before it ends itself.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_kernel.h"
#include "src/cuda/fine/sm90/fine_backward_producer.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda::sm90 {

// The kernel starts with 168 registers for each of 384 threads, 64512 in all. setmaxnreg divides
// them into 128 x 24 + 256 x 240 or 128 x 56 + 256 x 224, which are 64512 as well.
inline constexpr int kBackwardThreads = 384;
template <int kHeadDim>
inline constexpr int kBackwardProducerRegisters = kHeadDim == 128 ? 24 : 56;
template <int kHeadDim>
inline constexpr int kBackwardConsumerRegisters = kHeadDim == 128 ? 240 : 224;

/// @param slot_arrivals  arrivals of each consumer warp on the empty barrier of a slot: 1 or 32
template <int kHeadDim, int kConsumers>
__device__ __forceinline__ void init_barriers(BackwardSmem<kHeadDim, kConsumers>& smem,
                                              uint32_t slot_arrivals) {
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  const auto init = [](uint64_t& full, uint64_t& empty, uint32_t arrivals) {
    barrier_init(smem_address(&full), 1);
    barrier_init(smem_address(&empty), kConsumers * kWarpsPerConsumer * arrivals);
  };
  for (typename Smem::Stream& s : smem.stream) {
    init(s.full_owned, s.empty_owned, 1);
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
  // The driver reserves the first 1 KiB, so that dynamic shared memory begins at a multiple of 1
  // KiB, as slabs need. There is no room for the gap with which the forward kernel makes sure of
  // it.
  extern __shared__ __align__(Smem::kAlignment) uint8_t raw[];
  Smem& smem = *reinterpret_cast<Smem*>(raw);
  using ConsumerOf = Consumer<T, kHeadDim, kConsumers>;
  if (threadIdx.x == 0) init_barriers(smem, ConsumerOf::kSlotArrivals);
  __syncthreads();

  const uint32_t warpgroup = warp_uniform(threadIdx.x / 128);
  if (warpgroup == 0) {
    setmaxnreg_dec<kBackwardProducerRegisters<kHeadDim>>();
    const uint32_t warp = warp_uniform(threadIdx.x / 32);
    if (warp < Smem::kStreams) {
      BackwardProducer<kHeadDim, kConsumers, kOwnsKeys>(params, smem, warp).run(warp);
    } else if constexpr (kOwnsKeys) {
      cudaGridDependencySynchronize();  // waits for the end of the dq kernel
    } else {
      cudaTriggerProgrammaticLaunchCompletion();  // the dk, dv kernel may start
    }
  } else {
    setmaxnreg_inc<kBackwardConsumerRegisters<kHeadDim>>();
    ConsumerOf(params, smem, warpgroup - 1).run();
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

/// Launches the kernel for the dtype and head_dim. The two consumers share a stream where a tile
/// has an even number of blocks, so that two neighbouring blocks are of one tile.
template <template <class, int, int> class Consumer, bool kOwnsKeys>
Status launch_backward(const FineBackwardParams& params, const KernelLaunch& how) {
  const PlanShape& owned = kOwnsKeys ? params.kv.plan : params.q.plan;
  const auto with_type = [&]<class T>() {
    const auto with_head_dim = [&]<int kHeadDim>() {
      return owned.blocks_per_tile % 2 == 0
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
