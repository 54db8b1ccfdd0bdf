// The table of the CUDA backend. Host-only.
#include "src/core/backend_table.h"
#include "src/cuda/stages.h"
#include "src/cuda/support/device.h"
#include "src/cuda/support/libraries.h"
#include "src/cuda/traits.h"

namespace vsa::cuda {
namespace {

constexpr BackendTable kTable{.id = BackendId::kCuda,
                              .info = info,
                              .traits = kTraits,
                              .device = &kDeviceFunctions,
                              .library = library,
                              VSA_FOR_EACH_STAGE(VSA_TABLE_ENTRY)};

}  // namespace
}  // namespace vsa::cuda

const vsa::BackendTable& vsa::cuda_backend() { return cuda::kTable; }
