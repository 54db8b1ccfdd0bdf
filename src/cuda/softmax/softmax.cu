// softmax: a CTA of 256 threads computes a row in three passes over it, for the maximum, the sum
// and the quotients. A row of 14400 scores is 56 KiB, so that the second and third pass read it
// from the L1 cache or at least from L2. In Wan's VAE it is less than 1 % of the time. Shared
// memory: a number of each warp for either sum, 64 bytes. Barriers: __syncthreads, twice.
#include <cmath>

#include "src/cuda/softmax/softmax.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/// combine over all threads of the CTA, in the same order in each of them. `partial` is used once.
template <class Combine>
__device__ __forceinline__ float over_cta(float value, float (&partial)[kWarps],
                                          const Combine& combine) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, mask));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < kWarps; ++warp) value = combine(value, partial[warp]);
  return value;
}

/// grid: x positions, y heads, z batch.
template <class Out>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(const __grid_constant__ SoftmaxParams p) {
  __shared__ float maxima[kWarps];
  __shared__ float sums[kWarps];
  pdl_wait_and_trigger();
  const auto s = static_cast<int64_t>(blockIdx.x);
  const auto h = static_cast<int64_t>(blockIdx.y);
  const auto b = static_cast<int64_t>(blockIdx.z);
  const float* const x =
      static_cast<const float*>(p.x.data) + b * p.x.batch + h * p.x.head + s * p.x.seq;
  Out* const out = static_cast<Out*>(p.out.data) + b * p.out.batch + h * p.out.head + s * p.out.seq;

  float most = -INFINITY;
  for (int64_t n = threadIdx.x; n < p.columns; n += kThreads) most = fmaxf(most, p.scale * x[n]);
  most = over_cta(most, maxima, [](float a, float c) { return fmaxf(a, c); });
  float sum = 0.0F;  // a NaN makes it one
  for (int64_t n = threadIdx.x; n < p.columns; n += kThreads) sum += expf(p.scale * x[n] - most);
  sum = over_cta(sum, sums, [](float a, float c) { return a + c; });
  for (int64_t n = threadIdx.x; n < p.width; n += kThreads) {
    out[n] = Out(n < p.columns ? expf(p.scale * x[n] - most) / sum : 0.0F);
  }
}

}  // namespace

Status run_softmax(const CallSite& at, const SoftmaxParams& params, DType dtype,
                   const std::array<int64_t, 4>& shape) {
  const LaunchShape launched{
      .grid = dim3(grid_extent(shape[2]), grid_extent(shape[1]), grid_extent(shape[0])),
      .block = dim3(kThreads),
      .overlaps_previous = true};
  const auto kernel = dtype == DType::kBF16  ? softmax_kernel<__nv_bfloat16>
                      : dtype == DType::kF16 ? softmax_kernel<__half>
                                             : softmax_kernel<float>;
  return launch(at, kernel, launched, params);
}

}  // namespace vsa::cuda
