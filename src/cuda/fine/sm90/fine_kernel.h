// Launch function of the forward fine kernel. Host-only.
#pragma once

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/kernel_launch.h"
#include "vsa/status.h"

namespace vsa::cuda::sm90 {

/// Launches the kernel on the current device.
Status run_fine(const FineParams& params, const KernelLaunch& how);

}  // namespace vsa::cuda::sm90
