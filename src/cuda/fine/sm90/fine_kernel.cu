// The forward fine kernel for sm_90a: token-level attention of query blocks to the key blocks on
// their schedule, with the combine stage in its epilogue.
//
//   q, k, v in the caller's layout      schedule: which key blocks in which order (plan/schedule.h)
//        |                                 |
//        +---- TMA, producer warps --------+
//        v
//   shared memory: q, rings of k and v slots
//        | wgmma, consumer warpgroups: s = q k^T, online softmax, out += p v, all in registers
//        v
//   epilogue: out / sum * gate_fine + gate_coarse * coarse_out -> out, lse in the caller's layout
//
//   head_dim 128   warps 0-3: producers of k and v of ring 0 and ring 1; warps 4-7 and 8-11: one
//                  consumer for each half of a pair (fine_pair_consumer.h)
//   head_dim 64    warps 0-2: one producer for each ring, warp 3 idles; warps 4-7, 8-11 and 12-15:
//                  one consumer for each ring (fine_block_consumer.h)
//
// fine_params.h has the units of work, the shared memory plan and the barriers.
//
// The kernel is persistent, with one CTA on each multiprocessor. The units of one head have
// consecutive numbers, so that all CTAs work on the keys of one head at a time and find them in L2.
#include <algorithm>

#include "src/cuda/fine/sm90/fine_block_consumer.h"
#include "src/cuda/fine/sm90/fine_kernel.h"
#include "src/cuda/fine/sm90/fine_pair_consumer.h"
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
    barrier_init(smem_address(&s.empty_unit[i]), kPairProducers - 1);
  }
  barrier_init(smem_address(&s.pair_barrier), 2 * kWarpsPerConsumer);
  fence_barrier_init();
}

/// At head_dim 128 the k and the v slots of each ring have a producer warp of their own, so that a
/// slot that is freed late delays no other copies. At head_dim 64 one warp serves a whole ring.
template <int kHeadDim>
__device__ __forceinline__ void produce(const FineParams& params, FineSmem<kHeadDim>& smem) {
  const uint32_t warp = threadIdx.x / 32;
  if constexpr (!FineShape<kHeadDim>::kPaired) {
    if (warp < FineSmem<kHeadDim>::kRings) Producer<kHeadDim, true, true>(params, smem, warp).run();
  } else if (warp < kPairProducers / 2) {
    Producer<kHeadDim, true, false>(params, smem, warp).run();
  } else {
    Producer<kHeadDim, false, true>(params, smem, warp - kPairProducers / 2).run();
  }
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(FineShape<kHeadDim>::kThreads, 1)
    fine_fwd_kernel(const __grid_constant__ FineParams params) {
  extern __shared__ uint8_t raw[];
  using Smem = FineSmem<kHeadDim>;
  // CUDA promises an alignment of 16 bytes; slabs need 1 KiB (descriptor.h).
  const uint32_t gap = (Smem::kAlignment - smem_address(raw) % Smem::kAlignment) % Smem::kAlignment;
  Smem& smem = *reinterpret_cast<Smem*>(raw + gap);
  if (threadIdx.x == 0) init_barriers(smem);
  __syncthreads();
  pdl_wait();

  const uint32_t warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    setmaxnreg_dec<FineShape<kHeadDim>::kProducerRegisters>();
    produce(params, smem);
  } else {
    setmaxnreg_inc<FineShape<kHeadDim>::kConsumerRegisters>();
    const int consumer = static_cast<int>(warpgroup) - 1;
    if constexpr (FineShape<kHeadDim>::kPaired) {
      PairConsumer<T, kHeadDim>(params, smem, consumer).run();
    } else {
      BlockConsumer<T, kHeadDim>(params, smem, consumer).run();
    }
  }
}

template <class T, int kHeadDim>
Status launch_fine(const FineParams& given, const KernelLaunch& how) {
  constexpr int kBytes = sizeof(FineSmem<kHeadDim>) + FineSmem<kHeadDim>::kAlignment;
  static_assert(kBytes <= 232448, "a CTA has at most 227 KiB");
  FineParams params = given;
  params.num_pair_items = WorkUnit<kHeadDim>::num_pair_items(params.num_items, how.at.num_sms);
  const int32_t num_units = WorkUnit<kHeadDim>::count(params.num_items, params.num_pair_items);
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
