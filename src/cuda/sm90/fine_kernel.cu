// The fine kernel for sm_90a: token-level attention of pairs of query blocks to the blocks on their
// schedule, with the combine stage in its epilogue.
//
//   warps 0-3            producers: blocks of q, k, v from the caller's layout, through TMA
//   warps 4-7, 8-11      consumers: one query block each (fine_consumer.h)
//
// Persistent: one CTA on each multiprocessor takes every num_ctas-th item of batch x head x pair,
// heads outermost, so that all work on one head's k and v at a time and find them in L2.
#include "src/cuda/launch.h"
#include "src/cuda/sm90/fine_consumer.h"
#include "src/cuda/sm90/fine_kernel.h"
#include "src/cuda/sm90/fine_producer.h"

namespace vsa::cuda::sm90 {
namespace {

// 64512 registers are 384 x 168; 128 x 56 + 256 x 224 is the same, and the consumers need ~200.
constexpr int kThreads = 384;
constexpr int kProducerRegisters = 56;
constexpr int kConsumerRegisters = 224;

template <int kHeadDim>
__device__ __forceinline__ void init_barriers(FineSmem<kHeadDim>& s) {
  for (int ring = 0; ring < 2; ++ring) {
    for (int i = 0; i < FineSmem<kHeadDim>::kStages; ++i) {
      barrier_init(smem_address(&s.full_k[ring][i]), 1);
      barrier_init(smem_address(&s.full_v[ring][i]), 1);
      barrier_init(smem_address(&s.empty_k[ring][i]), 2 * kWarpsPerConsumer);
      barrier_init(smem_address(&s.empty_v[ring][i]), 2 * kWarpsPerConsumer);
    }
    barrier_init(smem_address(&s.full_q[ring]), 1);
    barrier_init(smem_address(&s.empty_q[ring]), kWarpsPerConsumer);
  }
  barrier_init(smem_address(&s.meet), 2 * kWarpsPerConsumer);
  fence_barrier_init();
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    fine_fwd_kernel(const __grid_constant__ FineParams params) {
  extern __shared__ uint8_t raw[];
  using Smem = FineSmem<kHeadDim>;
  const uint32_t gap = (Smem::kAlignment - smem_address(raw) % Smem::kAlignment) % Smem::kAlignment;
  Smem& smem = *reinterpret_cast<Smem*>(raw + gap);
  if (threadIdx.x == 0) init_barriers(smem);
  __syncthreads();

  const uint32_t warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x < 64) {
      Producer<kHeadDim, false>(params, smem, threadIdx.x / 32).run();
    } else {
      Producer<kHeadDim, true>(params, smem, threadIdx.x / 32 - 2).run();
    }
  } else {
    take_registers<kConsumerRegisters>();
    Consumer<T, kHeadDim>(params, smem, static_cast<int>(warpgroup) - 1).run();
  }
}

template <class T, int kHeadDim>
Status launch_fine(const FineParams& params, const KernelLaunch& how) {
  constexpr int kBytes = sizeof(FineSmem<kHeadDim>) + FineSmem<kHeadDim>::kAlignment;
  static_assert(kBytes <= 232448, "a CTA has at most 227 KiB");
  const int num_ctas = params.num_items < how.num_sms ? params.num_items : how.num_sms;
  return launch(how.operation, fine_fwd_kernel<T, kHeadDim>,
                {.grid = dim3(static_cast<unsigned>(num_ctas)),
                 .block = dim3(kThreads),
                 .smem_bytes = kBytes,
                 .stream = how.stream},
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
