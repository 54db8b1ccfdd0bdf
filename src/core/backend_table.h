// What a backend is to the rest of vsa: a constant table of functions. Host-only.
//
// A null entry means the backend lacks the stage; src/api/stages.cc then answers Unsupported.
// Arguments arrive validated (src/core/validate.h), with `scale` filled in, so a backend only
// computes.
#pragma once

#include <string>

#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"

namespace vsa {

struct BackendTable {
  BackendId id;
  /// Whether this machine can run it, and on what.
  BackendInfo (*info)();
  /// Whether its stages need workspace, and so answer Context::workspace_query themselves.
  bool has_workspace = false;

  Status (*tile)(const Context&, const TileArgs&) = nullptr;
  Status (*untile)(const Context&, const UntileArgs&) = nullptr;
  Status (*pool)(const Context&, const PoolArgs&) = nullptr;
  Status (*norm_rope_pool)(const Context&, const NormRopePoolArgs&) = nullptr;
  Status (*coarse)(const Context&, const CoarseArgs&) = nullptr;
  Status (*select)(const Context&, const SelectArgs&) = nullptr;
  Status (*fine)(const Context&, const FineArgs&) = nullptr;
  Status (*combine)(const Context&, const CombineArgs&) = nullptr;

  Status (*pool_backward)(const Context&, const PoolBackwardArgs&) = nullptr;
  Status (*coarse_backward)(const Context&, const CoarseBackwardArgs&) = nullptr;
  Status (*fine_backward)(const Context&, const FineBackwardArgs&) = nullptr;
  Status (*combine_backward)(const Context&, const CombineBackwardArgs&) = nullptr;

  /// The whole operator.
  Status (*attention_forward)(const Context&, const AttentionArgs&) = nullptr;
  Status (*attention_backward)(const Context&, const AttentionBackwardArgs&) = nullptr;
};

/// Each backend defines its own; src/api/registry.cc is the only list of them.
const BackendTable& reference_backend();
const BackendTable& cpu_backend();
#ifdef VSA_HAS_CUDA
const BackendTable& cuda_backend();
#endif

}  // namespace vsa
