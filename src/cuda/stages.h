// The stages of the CUDA backend, as its table lists them. Host-only.
//
// A folder a stage: its entry, which turns arguments into the parameters of kernels, and the
// kernels. A folder in it that is named after a family of architectures (family.h) is compiled for
// these alone. plan/: block tables and schedules. support/: launches, devices, workspace, numbers.
#pragma once

#include "src/core/stage_list.h"

namespace vsa::cuda {

VSA_FOR_EACH_STAGE(VSA_DECLARE_STAGE)

}  // namespace vsa::cuda
