// The stages of the CUDA backend, as its table lists them. Host-only.
//
// Each stage has a folder with its entry function, which turns arguments into kernel parameters,
// and its kernels. A subfolder named after a family of architectures (family.h) is compiled for
// that family alone. plan/: block tables and schedules. support/: launches, devices, workspace,
// numbers.
#pragma once

#include "src/core/stage_list.h"

namespace vsa::cuda {

VSA_FOR_EACH_STAGE(VSA_DECLARE_STAGE)

}  // namespace vsa::cuda
