// The hashes of a run's files, made on a thread of their own while the run is under way.
#include "runtime/file_hashes.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/fill_report.h"

namespace vsa::runtime {
namespace {

/// Threads for it: files of tens of gigabytes take one of them a minute, and the run needs the
/// others.
size_t num_threads(size_t num_files) {
  const size_t spare = std::max<size_t>(1, std::thread::hardware_concurrency() / 4);
  return std::min(spare, num_files);
}

Result<FileReport> hash(const std::filesystem::path& root, const std::filesystem::path& path,
                        const std::atomic<bool>& stop) {
  try {
    return file_report(root, path, &stop);
  } catch (const std::bad_alloc&) {
    return out_of_memory("[generate] not enough memory");
  } catch (const std::exception& fault) {  // the size of a file that is gone
    return io_error(std::string("[generate] ") + fault.what());
  }
}

/// Files in their order, several at a time; the first fault among them.
Result<std::vector<FileReport>> hash_all(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& paths,
                                         const std::atomic<bool>& stop) {
  std::vector<std::optional<Result<FileReport>>> hashed(paths.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) hashed[i] = hash(root, paths[i], stop);
  };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < num_threads(paths.size()); ++i) others.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads: those that are there do it
    }
    work();
  }
  std::vector<FileReport> reports;
  for (std::optional<Result<FileReport>>& report : hashed) {
    VSA_TRY(report->status());
    reports.push_back(std::move(**report));
  }
  return reports;
}

}  // namespace

FileHashes::FileHashes(std::filesystem::path root, std::vector<std::filesystem::path> paths)
    : thread_([this, root = std::move(root), paths = std::move(paths)] {
        reports_ = hash_all(root, paths, stop_);
        done_ = true;
      }) {}

FileHashes::~FileHashes() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

const Result<std::vector<FileReport>>& FileHashes::get() {
  if (thread_.joinable()) thread_.join();
  return reports_;
}

}  // namespace vsa::runtime
