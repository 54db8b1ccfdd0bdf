// Families of GPU architectures: a table for each of what differs between them. Host-only.
//
// So far only the fine stage differs. A family is a folder fine/<family>/, compiled for its
// architectures alone, with a `constinit const Family kFamily` in namespace vsa::cuda::<family>,
// and a line in cmake/cuda_families.cmake. Everything else is compiled for the architectures of all
// families.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/cuda/fine/fine.h"
#include "src/cuda/fine/fine_backward.h"

namespace vsa::cuda {

struct Family {
  std::string_view name;               ///< the architecture as nvcc and messages call it
  int min_capability, max_capability;  ///< compute capabilities, major * 10 + minor

  /// Each takes the workspace of a call and returns the object that enqueues its kernels.
  std::unique_ptr<FineRun> (*fine)(Carver& workspace, const PlanTables& plans, const LutDims& dims,
                                   int64_t head_dim);
  std::unique_ptr<FineBackwardRun> (*fine_backward)(Carver& workspace, const PlanTables& plans,
                                                    const LutDims& dims);

  bool supports(int capability) const {
    return capability >= min_capability && capability <= max_capability;
  }
};

/// The families of this build, at least one.
std::span<const Family* const> families();
/// The family that supports the compute capability; null if none does.
const Family* family_of(int capability);
/// The family of the device that holds `data`. If `data` is not memory of a supported device, the
/// first family is returned, and the call fails when it enters the device (DeviceScope).
const Family& family_for(const void* data);

/// Names ("sm_90a") and compute capabilities ("9.0") of all families, for messages.
std::string family_names(std::string_view separator);
std::string family_capabilities();

}  // namespace vsa::cuda
