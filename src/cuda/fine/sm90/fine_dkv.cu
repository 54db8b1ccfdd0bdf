// The backward fine kernel for dk and dv on sm_90a: each consumer owns 64 keys, and the queries
// that keep them are streamed. fine_backward_launch.h has the data flow, the roles of the warps and
// the launch, fine_backward_params.h shared memory and barriers, fine_dkv_consumer.h the
// computation.
#include "src/cuda/fine/sm90/fine_backward_launch.h"
#include "src/cuda/fine/sm90/fine_dkv_consumer.h"

namespace vsa::cuda::sm90 {

Status run_fine_dkv(const FineBackwardParams& params, const KernelLaunch& launch) {
  return launch_backward<DkvConsumer, true>(params, launch);
}

}  // namespace vsa::cuda::sm90
