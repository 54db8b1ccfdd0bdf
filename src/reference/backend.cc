// The table of the reference backend: scalar fp64, the specification. Host-only.
#include "src/core/backend_table.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

BackendInfo info() {
  return {.id = BackendId::kReference, .available = true, .detail = "scalar fp64"};
}

constexpr BackendTable kTable{
    .id = BackendId::kReference,
    .info = info,
    .traits = {.token_dtypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64},
               .tile_dtypes = {DType::kF32, DType::kF64}},
    VSA_FOR_EACH_STAGE(VSA_TABLE_ENTRY)};

}  // namespace
}  // namespace vsa::reference

const vsa::BackendTable& vsa::reference_backend() { return reference::kTable; }
