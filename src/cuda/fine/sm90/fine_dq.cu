// The dq kernel of the fine backward for sm_90a; fine_backward_launch.h and fine_dq_consumer.h say
// how.
#include "src/cuda/fine/sm90/fine_backward_launch.h"
#include "src/cuda/fine/sm90/fine_dq_consumer.h"

namespace vsa::cuda::sm90 {

Status run_fine_dq(const FineBackwardParams& params, const KernelLaunch& launch) {
  return launch_backward<DqConsumer, false>(params, launch);
}

}  // namespace vsa::cuda::sm90
