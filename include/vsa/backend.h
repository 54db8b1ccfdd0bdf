// Which implementation runs, and the context every call takes. Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

enum class BackendId : int { kReference = 0, kCpu = 1, kCuda = 2, kHip = 3 };

/// All backends vsa knows, compiled in or not, in the order of their values.
inline constexpr std::array kBackendIds{BackendId::kReference, BackendId::kCpu, BackendId::kCuda,
                                        BackendId::kHip};

/// "reference", "cpu", "cuda", "hip"; "unknown" for a value outside the enum.
std::string_view name(BackendId id);
/// The backend of that name. @return InvalidArgument listing the names.
Result<BackendId> backend_from_name(std::string_view name);

/// What this build and this machine offer.
struct BackendInfo {
  BackendId id = BackendId::kReference;
  bool available = false;
  std::string
      detail;  ///< if available, what it runs on ("AVX-512 (AVX3_ZEN4)"); else why it is absent
};

/// Of each of kBackendIds.
std::vector<BackendInfo> backends();

/// Whether the backend is compiled in and has the call of that name ("fine_backward", say),
/// whatever this machine can run. A call that it lacks is Unsupported.
bool implements(BackendId id, std::string_view operation);

/// Where the tensors and tables of a call are.
enum class MemoryKind : int { kHost = 0, kDevice = 1 };

/// What a backend takes, on any machine. Programs ask for these traits and not for the name of the
/// backend, so that they also work with a backend that is added later.
struct BackendTraits {
  DTypes token_dtypes;               ///< of q, k, v, gates and whatever has a row for each token
  DTypes tile_dtypes;                ///< of means, scores, lse
  int64_t head_dim_step = 1;         ///< head_dims are the multiples of this ...
  int64_t max_head_dim = INT64_MAX;  ///< ... up to this
  int64_t row_bytes = 1;  ///< token rows of at least so many bytes begin at multiples of it
  MemoryKind memory = MemoryKind::kHost;
  bool has_workspace = false;  ///< calls need Context::workspace, see workspace_query
  bool has_streams = false;    ///< calls only enqueue on Context::stream
  bool has_threads = false;    ///< calls run on Context::num_threads threads
  /// What a user can do about a dtype or head_dim that is not taken; for messages.
  std::string_view dtype_remedy{};
  std::string_view head_dim_remedy{};

  constexpr bool takes_head_dim(int64_t head_dim) const {
    return head_dim % head_dim_step == 0 && head_dim <= max_head_dim;
  }
};

/// @return InvalidArgument (id outside the enum) | Unsupported (not part of this build), with the
/// reason
Result<BackendTraits> backend_traits(BackendId id);

/// The instruction set that the CPU backend runs on, as VSA_ISA spells it: "avx512", "avx2", "neon"
/// or "baseline". For code beside libvsa that is compiled for several of them and runs on the same.
/// @return Unsupported if VSA_ISA names one that this machine or this build lacks
Result<std::string_view> cpu_isa();

/// The largest number of threads that a call may ask for. More threads than cores gain nothing, and
/// OpenMP ends the process if it cannot start as many as it is told to.
inline constexpr int kMaxThreads = 1024;

/// Memory that a call may use while it runs. Does not own it.
struct Workspace {
  void* data = nullptr;  ///< on the cuda backend: device memory at a multiple of 256 bytes
  int64_t size_bytes = 0;
};

/// Gives a call its workspace, in place of a query before it: one round of checks instead of two.
struct WorkspaceSource {
  /// Called at most once, with what the call needs, after its arguments were checked. Must not
  /// throw; null data is answered with OutOfMemory. The memory must last until the stream is past
  /// the call.
  Workspace (*take)(void* user, int64_t size_bytes) = nullptr;
  void* user = nullptr;
};

/// Where and how a call runs. Nothing ever runs on another backend than the one named here.
///
/// The cuda backend takes tensors and tables in the memory of one device, which the first tensor of
/// a call decides (InvalidArgument for any other memory), and only enqueues on `stream`: nothing is
/// allocated, nothing waits, so that a call can be captured into a CUDA graph. What it needs
/// besides is asked for with `workspace_query`, or taken from `workspace_source`. Lists of
/// SelectOptions are host memory on every backend, and may be freed when the call returns.
struct Context {
  BackendId backend = BackendId::kCpu;
  int num_threads = 0;     ///< 0: as many as OpenMP gives. Results do not depend on it.
  void* stream = nullptr;  ///< cuda: the cudaStream_t; null is the default stream
  Workspace workspace{};   ///< cuda: calls that run at the same time need one each
  /// If set, a call checks its arguments, stores here how many bytes of workspace it needs (0 on
  /// the other backends), and does nothing else.
  int64_t* workspace_query = nullptr;
  /// cuda: if `take` is set, it is asked for the workspace, and `workspace` is not read.
  WorkspaceSource workspace_source{};
};

}  // namespace vsa
