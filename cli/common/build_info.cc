// What `vsa --version` prints, as text and as JSON. Host-only.
#include "cli/common/build_info.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "vsa/backend.h"
#include "vsa/vendor_library.h"
#include "vsa/version.h"

namespace vsa::cli {

std::string commit() { return VSA_COMMIT; }

std::string compiler() {
#if defined(__clang__)
  const std::string name =
      fmt::format("clang++ {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string name = fmt::format("g++ {}", __VERSION__);
#endif
  return fmt::format("{}, {}", name, VSA_BUILD_TYPE);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t start = line.find(": ");
    if (start != std::string::npos) return line.substr(start + 2);
  }
  return "unknown";
}

nlohmann::ordered_json version_json() {
  nlohmann::ordered_json all = {{"version", VSA_VERSION_STRING},
                                {"commit", commit()},
                                {"compiler", compiler()},
                                {"backends", nlohmann::ordered_json::array()}};
  for (const BackendInfo& info : backends()) {
    nlohmann::ordered_json libraries = nlohmann::ordered_json::array();
    for (const VendorLibraryInfo& library : vendor_libraries(info.id)) {
      libraries.push_back(
          {{"name", library.name}, {"available", library.available}, {"detail", library.detail}});
    }
    all["backends"].push_back({{"name", name(info.id)},
                               {"available", info.available},
                               {"detail", info.detail},
                               {"libraries", libraries}});
  }
  return all;
}

std::string version_text() {
  std::string text = fmt::format("vsa {} ({})\ncompiler: {}\nbackends:\n", VSA_VERSION_STRING,
                                 commit(), compiler());
  const auto add = [&text](std::string_view name, bool available, const std::string& detail) {
    text += fmt::format("  {:<10} {:<7} {}\n", name, available ? "yes" : "absent", detail);
  };
  for (const BackendInfo& info : backends()) add(name(info.id), info.available, info.detail);
  for (const BackendInfo& info : backends()) {
    const std::vector<VendorLibraryInfo> libraries = vendor_libraries(info.id);
    if (!libraries.empty()) text += fmt::format("libraries of {}:\n", name(info.id));
    for (const auto& library : libraries) add(library.name, library.available, library.detail);
  }
  return text;
}

}  // namespace vsa::cli
