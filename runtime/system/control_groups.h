// The control groups of Linux that this process is in, as folders. Host-only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vsa::system {

/// One control group and the groups above it, as far as this process sees them.
struct ControlGroupPath {
  bool version_2 = false;
  /// From the process's own group up to the root of the mounted hierarchy. Limits hold at each.
  std::vector<std::filesystem::path> folders;
};

/// The groups that limit `controller` ("memory", "cpu"): a version 2 hierarchy, a version 1
/// hierarchy, or with the hybrid layout one of each. Empty where none is mounted.
/// @param root  the folder that /proc and /sys are looked for in: "/", or a copy of a system
std::vector<ControlGroupPath> control_groups(const std::filesystem::path& root,
                                             const std::string& controller);

}  // namespace vsa::system
