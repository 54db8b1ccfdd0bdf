// What a backend is to the rest of vsa: a constant table of traits and functions. Host-only.
//
// A null entry means the backend lacks the stage; src/api/stages.cc then answers Unsupported.
#pragma once

#include "src/core/stage_list.h"

namespace vsa {

struct BackendTable {
  BackendId id;
  /// Whether this machine can run it, and on what.
  BackendInfo (*info)();
  BackendTraits traits;

#define VSA_TABLE_MEMBER(stage, Args, fields) \
  Status (*stage)(const Context&, const Args&) = nullptr;
  VSA_FOR_EACH_STAGE(VSA_TABLE_MEMBER)
#undef VSA_TABLE_MEMBER
};

/// Each backend defines its own; src/api/backend_list.cc is the only list of them.
const BackendTable& reference_backend();
const BackendTable& cpu_backend();
#ifdef VSA_HAS_CUDA
const BackendTable& cuda_backend();
#endif

}  // namespace vsa
