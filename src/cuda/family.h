// Families of architectures: what differs between them, as a table each. Host-only.
//
// Only the fine stage does so far. A family is a folder fine/<family>/, compiled for its
// architecture alone, with a `constinit const Family kFamily` in namespace vsa::cuda::<family>, and
// a line in cmake/cuda.cmake. Everything else is compiled for the architectures of all families.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/cuda/fine/fine.h"
#include "src/cuda/fine/fine_backward.h"

namespace vsa::cuda {

struct Family {
  std::string_view name;  ///< the architecture, as compilers and messages call it
  int least, most;        ///< compute capabilities it runs on, major * 10 + minor

  /// Each takes the workspace of a call; see FineRun and FineBackwardRun for what follows.
  std::unique_ptr<FineRun> (*fine)(Carver& workspace, const PlanTables& plans, const LutDims& dims,
                                   int64_t head_dim);
  std::unique_ptr<FineBackwardRun> (*fine_backward)(Carver& workspace, const PlanTables& plans,
                                                    const LutDims& dims);

  bool supports(int capability) const { return capability >= least && capability <= most; }
};

/// Those of this build, at least one.
std::span<const Family* const> families();
/// The family that supports the compute capability; null: none does.
const Family* family_of(int capability);
/// The family of the device that holds `data`. Memory of no such device is refused when the call
/// enters its device (DeviceScope); until then it counts as the first family's.
const Family& family_for(const void* data);

/// "sm_90a", "9.0": of all families, for messages.
std::string family_names(std::string_view separator);
std::string family_capabilities();

}  // namespace vsa::cuda
