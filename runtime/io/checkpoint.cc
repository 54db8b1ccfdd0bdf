// The weights of one model, in one safetensors file or in several with an index.
#include "runtime/io/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/io/checkpoint_index.h"
#include "runtime/io/printable.h"

namespace vsa::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

Status fail(const fs::path& path, std::string_view what) {
  return io_error(fmt::format("[open_checkpoint] {}: {}", path.string(), what));
}

/// The one file in the directory to open: its index if there is one, else its safetensors file.
Result<fs::path> choose_in(const fs::path& directory) {
  std::vector<fs::path> files;
  std::vector<fs::path> indexes;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.ends_with(kIndexSuffix)) indexes.push_back(it->path());
    if (file.ends_with(kFileSuffix)) files.push_back(it->path());
  }
  if (error) return fail(directory, "expected a readable directory, got: " + error.message());
  const auto& candidates = indexes.empty() ? files : indexes;
  if (candidates.size() != 1) {
    return fail(directory,
                fmt::format("expected one {} or one {} file, got {} and {}; name the file",
                            kIndexSuffix, kFileSuffix, indexes.size(), files.size()));
  }
  return candidates.front();
}

}  // namespace

Status Checkpoint::add(const fs::path& path) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  for (const auto& [tensor, view] : file->tensors()) {
    if (!tensors_.emplace(tensor, view).second) {
      return fail(path, fmt::format("{}: expected in one shard, got it in two", printable(tensor)));
    }
  }
  for (const auto& [key, value] : file->metadata()) {
    if (const auto& kept = metadata_.emplace(key, value).first->second; kept != value) {
      return fail(path, fmt::format("metadata {}: expected {} as in the other shards, got {}",
                                    printable(key), printable(kept), printable(value)));
    }
  }
  files_.push_back(std::move(*file));
  paths_.push_back(path);
  return {};
}

Result<Checkpoint> Checkpoint::open(const fs::path& given) {
  fs::path path = given;
  std::error_code ignored;  // what is not a directory is reported when it is opened
  if (fs::is_directory(given, ignored)) {
    Result<fs::path> chosen = choose_in(given);
    if (!chosen.ok()) return chosen.status();
    path = *chosen;
  }
  Checkpoint result;
  if (!path.string().ends_with(kIndexSuffix)) {
    VSA_TRY(result.add(path));
    return result;
  }

  const Result<MappedFile> index = MappedFile::open(path);
  if (!index.ok()) return index.status();
  const std::string_view text(reinterpret_cast<const char*>(index->bytes().data()),
                              index->bytes().size());
  const Result<WeightMap> weight_map = parse_checkpoint_index(text, path.string());
  if (!weight_map.ok()) return weight_map.status();

  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *weight_map) shards.insert(shard);
  for (const std::string& shard : shards) VSA_TRY(result.add(path.parent_path() / shard));

  for (size_t i = 0; i < result.files_.size(); ++i) {
    for (const auto& [tensor, view] : result.files_[i].tensors()) {
      const auto listed = weight_map->find(tensor);
      if (listed == weight_map->end() || listed->second != result.paths_[i].filename()) {
        return fail(path, fmt::format("{}: expected to be listed in {}, where it is",
                                      printable(tensor), result.paths_[i].filename().string()));
      }
    }
  }
  for (const auto& [tensor, shard] : *weight_map) {
    if (!result.tensors_.contains(tensor)) {
      return fail(path,
                  fmt::format("{}: expected in {}, got none", printable(tensor), printable(shard)));
    }
  }
  return result;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

int64_t Checkpoint::num_bytes() const {
  int64_t sum = 0;
  for (const auto& [tensor, view] : tensors_) sum += std::ssize(view.bytes);
  return sum;
}

}  // namespace vsa::io
