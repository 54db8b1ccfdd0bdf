// The backward fine kernel for dq on sm_90a: each consumer owns 64 queries, and the keys on their
// list are streamed. fine_backward_launch.h has the data flow, the roles of the warps and the
// launch, fine_backward_params.h shared memory and barriers, fine_dq_consumer.h the computation.
#include "src/cuda/fine/sm90/fine_backward_launch.h"
#include "src/cuda/fine/sm90/fine_dq_consumer.h"

namespace vsa::cuda::sm90 {

Status run_fine_dq(const FineBackwardParams& params, const KernelLaunch& launch) {
  return launch_backward<DqConsumer, false>(params, launch);
}

}  // namespace vsa::cuda::sm90
