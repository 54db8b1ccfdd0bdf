// What a backend is to the rest of vsa: a constant table of traits and functions. Host-only.
//
// A null entry means the backend lacks the stage; src/api/stages.cc then answers Unsupported.
#pragma once

#include "src/core/stage_list.h"

namespace vsa {

/// What include/vsa/device_memory.h needs of a backend with memory of its own.
struct DeviceFunctions {
  Status (*create_stream)(void** stream);
  void (*destroy_stream)(void* stream);
  Status (*allocate)(int64_t size_bytes, void** data);
  void (*release)(void* data);
  /// Bytes that `allocate` could still give.
  Status (*available)(int64_t* size_bytes);
  Status (*copy_in)(void* stream, void* to, const void* from, int64_t size_bytes);
  Status (*copy_out)(void* stream, void* to, const void* from, int64_t size_bytes);
  Status (*wait)(void* stream);
};

class SharedLibrary;

struct BackendTable {
  BackendId id;
  /// Whether this machine can run it, and on what.
  BackendInfo (*info)();
  BackendTraits traits;
  const DeviceFunctions* device = nullptr;  ///< null: tensors are in host memory
  /// One of find_library_names(id), loaded by the first call; null: there are none.
  Result<const SharedLibrary*> (*library)(std::string_view name) = nullptr;

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
