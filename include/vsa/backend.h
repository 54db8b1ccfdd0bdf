// Which implementation runs, and the context every call takes. Host-only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa {

enum class BackendId : int { kReference = 0, kCpu = 1, kCuda = 2, kHip = 3 };

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

/// All backends vsa knows, compiled in or not, in the order of BackendId.
std::vector<BackendInfo> backends();

/// Most threads that a call may ask for. One more than cores gains nothing, and OpenMP ends the
/// process if it cannot start as many as it is told to.
inline constexpr int kMaxThreads = 1024;

/// Where and how a call runs. Nothing ever runs on another backend than the one named here.
struct Context {
  BackendId backend = BackendId::kCpu;
  int num_threads = 0;  ///< 0: as many as OpenMP gives. Results do not depend on it.
};

}  // namespace vsa
