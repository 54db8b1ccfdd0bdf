// Entrances of the kernels of the fine backward. Host-only.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_params.h"
#include "src/cuda/fine/sm90/kernel_launch.h"
#include "vsa/status.h"

namespace vsa::cuda::sm90 {

/// Each starts one kernel on the current device, for params.num_items items; *params.next_item is
/// 0. dk and dv follow dq with nothing between them on the stream, as they run beside its end.
Status run_fine_dq(const FineBackwardParams& params, const KernelLaunch& launch);
Status run_fine_dkv(const FineBackwardParams& params, const KernelLaunch& launch);

}  // namespace vsa::cuda::sm90
