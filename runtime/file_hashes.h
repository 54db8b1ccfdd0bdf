// The hashes of a run's files, made on a thread of their own while the run is under way. Host-only.
#pragma once

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "runtime/report.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// Hashing gigabytes takes a minute. Only what needs the hashes waits for them.
class FileHashes {
 public:
  /// Begins.
  /// @param root  of file_report
  FileHashes(std::filesystem::path root, std::vector<std::filesystem::path> paths);
  /// Stops.
  ~FileHashes();
  FileHashes(const FileHashes&) = delete;
  FileHashes& operator=(const FileHashes&) = delete;

  /// Whether get() would return at once.
  bool done() const { return done_; }

  /// Waits until all are there; may be called again.
  /// @return IoError of the first file that cannot be read
  const Result<std::vector<FileReport>>& get();

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<bool> done_ = false;
  Result<std::vector<FileReport>> reports_ = std::vector<FileReport>();
  std::thread thread_;
};

}  // namespace vsa::runtime
