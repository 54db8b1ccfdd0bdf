// The hashes of a run's files, made on a thread of their own while the run is under way.
#include "runtime/file_hashes.h"

#include <new>

#include "runtime/fill_report.h"

namespace vsa::runtime {
namespace {

Result<std::vector<FileReport>> hash_all(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& paths,
                                         const std::atomic<bool>& stop) {
  std::vector<FileReport> reports;
  try {
    for (const std::filesystem::path& path : paths) {
      Result<FileReport> report = file_report(root, path, &stop);
      VSA_TRY(report.status());
      reports.push_back(std::move(*report));
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory("[generate] not enough memory");
  } catch (const std::exception& fault) {  // the size of a file that is gone
    return io_error(std::string("[generate] ") + fault.what());
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
