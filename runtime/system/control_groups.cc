// The control groups of Linux that this process is in, as folders.
#include "runtime/system/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace vsa::system {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& comma_separated, const std::string& word) {
  return std::ranges::count(split(comma_separated, ','), word) > 0;
}

/// A hierarchy that is mounted: its folder, and which group that folder shows.
struct Mount {
  bool version_2 = false;
  std::string group;   ///< "/" unless a part of the hierarchy is mounted, as containers do
  std::string folder;  ///< absolute, as the process sees it
};

/// Lines of mountinfo: ID PARENT MAJOR:MINOR ROOT FOLDER OPTIONS [FIELDS...] - TYPE SOURCE SUPER.
std::vector<Mount> mounts(const fs::path& root, const std::string& controller) {
  std::vector<Mount> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 5 || std::distance(dash, fields.end()) < 4) continue;
    const std::string& type = dash[1];
    const bool version_2 = type == "cgroup2";
    if (!version_2 && !(type == "cgroup" && lists(dash[3], controller))) continue;
    found.push_back({.version_2 = version_2, .group = fields[3], .folder = fields[4]});
  }
  return found;
}

/// The group of this process in a hierarchy: lines of /proc/self/cgroup are ID:CONTROLLERS:GROUP,
/// with 0 and no controllers for version 2.
std::string group_of_process(const fs::path& root, bool version_2, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches = version_2 ? controllers.empty() : lists(controllers, controller);
    if (matches) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

std::vector<ControlGroupPath> control_groups(const fs::path& root, const std::string& controller) {
  std::vector<ControlGroupPath> result;
  for (const Mount& mount : mounts(root, controller)) {
    const fs::path top = root / fs::path(mount.folder).relative_path();
    // A group outside of what is mounted (another namespace's) cannot be looked at; the mounted
    // root is then the closest there is.
    const fs::path group = group_of_process(root, mount.version_2, controller);
    fs::path below = group.lexically_relative(mount.group);
    if (below.empty() || *below.begin() == "..") below = ".";
    ControlGroupPath path{.version_2 = mount.version_2, .folders = {}};
    for (fs::path part = below; !part.empty() && part != "."; part = part.parent_path()) {
      path.folders.push_back(top / part);
    }
    path.folders.push_back(top);
    result.push_back(std::move(path));
  }
  return result;
}

}  // namespace vsa::system
