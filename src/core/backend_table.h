// What a backend is to the rest of vsa: a constant table of traits and functions. Host-only.
//
// A null entry means the backend lacks the stage; src/api/stages.cc then answers Unsupported.
#pragma once

#include <string>

#include "src/core/stage_list.h"

namespace vsa {

/// Graphs of a device: a stream's calls are captured, and enqueued as one.
struct GraphFunctions {
  /// What the calling thread enqueues on the stream from now on is captured.
  Status (*begin_capture)(void* stream);
  /// Ends it, also after an error; `*graph` is set only on success.
  Status (*end_capture)(void* stream, void** graph);
  Status (*launch)(void* graph, void* stream);
  void (*destroy)(void* graph);
};

/// What include/vsa/device_memory.h needs of a backend with memory of its own. Devices are numbers
/// from 0 on. All functions but the first four work on the device that is current on the calling
/// thread; src/api/current_device.h makes it so.
struct DeviceFunctions {
  Status (*count)(int* num_devices);
  Status (*current)(int* device);
  Status (*make_current)(int device);
  /// By which the tools of the system know the device.
  Status (*system_name)(int device, std::string* name);

  Status (*create_stream)(void** stream);
  void (*destroy_stream)(void* stream);
  Status (*wait)(void* stream);

  Status (*allocate)(int64_t size_bytes, void** data);
  void (*release)(void* data);
  /// Bytes that `allocate` could still give.
  Status (*available)(int64_t* size_bytes);
  /// Host memory for `copy_in_pinned`.
  Status (*allocate_pinned)(int64_t size_bytes, void** data);
  void (*release_pinned)(void* data);

  Status (*copy_in)(void* stream, void* to, const void* from, int64_t size_bytes);
  /// Only enqueues; `from` is what allocate_pinned gave.
  Status (*copy_in_pinned)(void* stream, void* to, const void* from, int64_t size_bytes);
  Status (*copy_out)(void* stream, void* to, const void* from, int64_t size_bytes);
  Status (*fill)(void* stream, void* to, uint8_t value, int64_t size_bytes);

  Status (*create_event)(void** event);
  void (*destroy_event)(void* event);
  Status (*record)(void* stream, void* event);
  /// The stream waits, not the host.
  Status (*wait_for)(void* stream, void* event);
  /// The host waits.
  Status (*wait_event)(void* event);
  Status (*elapsed_ms)(void* start, void* end, double* ms);

  const GraphFunctions* graphs = nullptr;  ///< null: the backend has none
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
