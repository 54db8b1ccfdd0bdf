// Launch functions of the two backward fine kernels. Host-only.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_params.h"
#include "src/cuda/fine/sm90/kernel_launch.h"
#include "vsa/status.h"

namespace vsa::cuda::sm90 {

/// Each launches one kernel on the current device, for params.num_items items; *params.next_item
/// must be 0. run_fine_dkv must follow run_fine_dq with nothing between them on the stream, because
/// it overlaps with its end (fine_backward_launch.h).
Status run_fine_dq(const FineBackwardParams& params, const KernelLaunch& launch);
Status run_fine_dkv(const FineBackwardParams& params, const KernelLaunch& launch);

}  // namespace vsa::cuda::sm90
