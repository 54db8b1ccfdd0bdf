// What this binary was built from and what it runs on. Host-only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace vsa::cli {

/// `git describe` of the source when the build was configured, or "unknown".
std::string commit();
/// "g++ 12.2.0, Release".
std::string compiler();
/// The processor's own name, or "unknown".
std::string cpu_name();

/// What `vsa --version --json` prints: version, commit, compiler, backends and their libraries.
nlohmann::ordered_json version_json();
/// What `vsa --version` prints.
std::string version_text();

}  // namespace vsa::cli
