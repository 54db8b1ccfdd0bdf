// The table of the reference backend: scalar fp64, the specification. Host-only.
#include "src/core/backend_table.h"
#include "src/reference/reference.h"

namespace vsa {
namespace {

BackendInfo info() {
  return {.id = BackendId::kReference, .available = true, .detail = "scalar fp64"};
}

constexpr BackendTable kTable{.id = BackendId::kReference,
                              .info = info,
                              .tile = reference::tile,
                              .untile = reference::untile,
                              .pool = reference::pool,
                              .norm_rope_pool = reference::norm_rope_pool,
                              .coarse = reference::coarse,
                              .select = reference::select,
                              .fine = reference::fine,
                              .combine = reference::combine,
                              .pool_backward = reference::pool_backward,
                              .coarse_backward = reference::coarse_backward,
                              .fine_backward = reference::fine_backward,
                              .combine_backward = reference::combine_backward,
                              .attention_forward = reference::attention_forward,
                              .attention_backward = reference::attention_backward};

}  // namespace

const BackendTable& reference_backend() { return kTable; }

}  // namespace vsa
