// The fine kernel for sm_90a: token-level attention of query blocks to the blocks on their
// schedule, with the combine stage in its epilogue.
//
//   warps 0-3     producers: blocks of q, k, v from the caller's layout, through TMA
//   4 warps each  consumers: two halves of a pair (fine_consumer.h) or three halves of any
//                 (fine_half_consumer.h), see FineShape
//
// Persistent: the CTAs, one on each multiprocessor, take the units of batch x head in turn, at
// head_dim 128 from a queue, heads outermost, so that all work on one head's k and v at a time and
// find them in L2.
#include <algorithm>

#include "src/cuda/fine/sm90/fine_consumer.h"
#include "src/cuda/fine/sm90/fine_half_consumer.h"
#include "src/cuda/fine/sm90/fine_kernel.h"
#include "src/cuda/fine/sm90/fine_producer.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda::sm90 {
namespace {

template <int kHeadDim>
__device__ __forceinline__ void init_barriers(FineSmem<kHeadDim>& s) {
  constexpr uint32_t kReaders = (FineShape<kHeadDim>::kPaired ? 2 : 1) * kWarpsPerConsumer;
  for (int ring = 0; ring < FineSmem<kHeadDim>::kRings; ++ring) {
    for (int i = 0; i < FineSmem<kHeadDim>::kStages; ++i) {
      barrier_init(smem_address(&s.full_k[ring][i]), 1);
      barrier_init(smem_address(&s.full_v[ring][i]), 1);
      barrier_init(smem_address(&s.empty_k[ring][i]), kReaders);
      barrier_init(smem_address(&s.empty_v[ring][i]), kReaders);
    }
    barrier_init(smem_address(&s.full_q[ring]), 1);
    barrier_init(smem_address(&s.empty_q[ring]), kWarpsPerConsumer * 32);
  }
  for (int i = 0; i < kUnitStages; ++i) {
    barrier_init(smem_address(&s.full_unit[i]), 1);
    barrier_init(smem_address(&s.empty_unit[i]), kSharingWarps - 1);
  }
  barrier_init(smem_address(&s.meet), 2 * kWarpsPerConsumer);
  fence_barrier_init();
}

/// A pair's streams have a warp each, so that a slot that frees late holds up no other; a half's
/// ring has one.
template <int kHeadDim>
__device__ __forceinline__ void produce(const FineParams& params, FineSmem<kHeadDim>& smem) {
  const uint32_t warp = threadIdx.x / 32;
  if constexpr (!FineShape<kHeadDim>::kPaired) {
    if (warp < FineSmem<kHeadDim>::kRings) Producer<kHeadDim, true, true>(params, smem, warp).run();
  } else if (warp < kSharingWarps / 2) {
    Producer<kHeadDim, true, false>(params, smem, warp).run();
  } else {
    Producer<kHeadDim, false, true>(params, smem, warp - kSharingWarps / 2).run();
  }
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(FineShape<kHeadDim>::kThreads, 1)
    fine_fwd_kernel(const __grid_constant__ FineParams params) {
  extern __shared__ uint8_t raw[];
  using Smem = FineSmem<kHeadDim>;
  const uint32_t gap = (Smem::kAlignment - smem_address(raw) % Smem::kAlignment) % Smem::kAlignment;
  Smem& smem = *reinterpret_cast<Smem*>(raw + gap);
  if (threadIdx.x == 0) init_barriers(smem);
  __syncthreads();
  pdl_wait();

  const uint32_t warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    give_registers<FineShape<kHeadDim>::kProducerRegisters>();
    produce(params, smem);
  } else {
    take_registers<FineShape<kHeadDim>::kConsumerRegisters>();
    const int consumer = static_cast<int>(warpgroup) - 1;
    if constexpr (FineShape<kHeadDim>::kPaired) {
      Consumer<T, kHeadDim>(params, smem, consumer).run();
    } else {
      HalfConsumer<T, kHeadDim>(params, smem, consumer).run();
    }
  }
}

template <class T, int kHeadDim>
Status launch_fine(const FineParams& given, const KernelLaunch& how) {
  constexpr int kBytes = sizeof(FineSmem<kHeadDim>) + FineSmem<kHeadDim>::kAlignment;
  static_assert(kBytes <= 232448, "a CTA has at most 227 KiB");
  FineParams params = given;
  params.num_whole = Unit<kHeadDim>::num_whole(params.num_items, how.at.num_sms);
  const int32_t num_units = Unit<kHeadDim>::count(params.num_items, params.num_whole);
  return launch(how.at, fine_fwd_kernel<T, kHeadDim>,
                {.grid = dim3(static_cast<unsigned>(std::min(num_units, how.at.num_sms))),
                 .block = dim3(FineShape<kHeadDim>::kThreads),
                 .smem_bytes = kBytes,
                 .overlaps_previous = true},
                params);
}

}  // namespace

Status run_fine(const FineParams& params, const KernelLaunch& how) {
  if (how.dtype == DType::kBF16) {
    return how.head_dim == 128 ? launch_fine<__nv_bfloat16, 128>(params, how)
                               : launch_fine<__nv_bfloat16, 64>(params, how);
  }
  return how.head_dim == 128 ? launch_fine<__half, 128>(params, how)
                             : launch_fine<__half, 64>(params, how);
}

}  // namespace vsa::cuda::sm90
