// The weights of one model, in one safetensors file or in several with an index.
#include "runtime/io/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/io/checkpoint_index.h"
#include "runtime/io/file_kind.h"
#include "runtime/io/printable.h"
#include "runtime/io/weight_choice.h"

namespace vsa::io {
namespace {

namespace fs = std::filesystem;

/// Of an index, with a variant (".index.fp16.json") or without.
bool is_index(const fs::path& path) {
  const std::string file = path.filename().string();
  return file.ends_with(".json") && file.find(".safetensors.index.") != file.npos;
}

Status fail(const fs::path& path, std::string_view what) {
  return io_error(fmt::format("[open_checkpoint] {}: {}", path.string(), what));
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

Result<Checkpoint> Checkpoint::open(const fs::path& given, const std::string& variant) {
  fs::path path = given;
  std::error_code ignored;  // what is not a directory is reported when it is opened
  if (fs::is_directory(given, ignored)) {
    Result<fs::path> chosen = choose_weights(given, variant);
    if (!chosen.ok()) return chosen.status();
    path = *chosen;
  }
  Checkpoint result;
  if (!is_index(path)) {
    VSA_TRY(result.add(path));
    return result;
  }

  const Result<MappedFile> index = MappedFile::open(path);
  if (!index.ok()) return index.status();
  const std::string_view text(reinterpret_cast<const char*>(index->bytes().data()),
                              index->bytes().size());
  const Result<WeightMap> weight_map = parse_checkpoint_index(text, path.string());
  if (!weight_map.ok()) {
    if (text.starts_with('{') || text.starts_with('[')) return weight_map.status();
    return fail(path, "expected a JSON object, got " + file_kind(index->bytes()));
  }

  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *weight_map) shards.insert(shard);
  for (const std::string& shard : shards) {
    const fs::path beside = path.parent_path() / shard;
    if (!fs::exists(beside, ignored)) {
      return fail(path, fmt::format("{}: expected beside the index, which names it, got no such "
                                    "file",
                                    printable(shard)));
    }
    VSA_TRY(result.add(beside));
  }

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

void Checkpoint::keep_part(std::span<const std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    const auto has_prefix = [&](const auto& entry) { return entry.first.starts_with(prefix); };
    if (std::ranges::none_of(tensors_, has_prefix)) continue;
    std::erase_if(tensors_, [&](const auto& entry) { return !has_prefix(entry); });
    return;
  }
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status Checkpoint::in_file(const Status& fault) const {
  constexpr std::string_view kTag = "[load] ";
  if (fault.ok() || paths_.empty() || !fault.message().starts_with(kTag)) return fault;
  const fs::path& path = paths_.size() == 1 ? paths_.front() : paths_.front().parent_path();
  return {fault.code(),
          fmt::format("{}{}: {}", kTag, path.string(), fault.message().substr(kTag.size()))};
}

int64_t Checkpoint::num_bytes() const {
  int64_t sum = 0;
  for (const auto& [tensor, view] : tensors_) sum += std::ssize(view.bytes);
  return sum;
}

}  // namespace vsa::io
