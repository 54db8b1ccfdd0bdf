// The list of the videos that a batch has finished. Host-only.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/generate/batch_file.h"
#include "cli/generate/options.h"
#include "cli/generate/outputs.h"
#include "runtime/report.h"

namespace vsa::cli {

/// What decides how the videos of a batch and their files look, besides the entries: two runs with
/// the same settings may share a manifest.
nlohmann::ordered_json batch_settings(const SamplingOptions& sampling, const OutputOptions& output);

/// One JSON object a line, added to when a video is complete. Several processes may share one.
class Manifest {
 public:
  /// Reads the file if it exists. Lines that were cut short by a full disk or a crash are left out.
  /// @param settings  of batch_settings
  /// Throws Failure: kInputOutput if a line is none of a manifest, kUsage if it has other settings.
  Manifest(std::filesystem::path path, nlohmann::ordered_json settings);

  /// Whether that very video was made and is still there.
  bool has(const BatchEntry& entry, const std::filesystem::path& video) const;

  /// Adds a line. Throws Failure(kInputOutput).
  void add(const BatchEntry& entry, const OutputPaths& paths,
           const runtime::GenerateReport& report) const;

 private:
  std::filesystem::path path_;
  nlohmann::ordered_json settings_;
  std::map<std::string, nlohmann::ordered_json> finished_;  ///< records by the names of entries
};

}  // namespace vsa::cli
