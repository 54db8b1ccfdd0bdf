// Chooses the weights of a folder.
#include "runtime/io/weight_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/io/file_kind.h"

namespace vsa::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index.";
constexpr std::string_view kJson = "json";

/// A file name taken apart.
struct Candidate {
  fs::path path;
  std::string name;     ///< "diffusion_pytorch_model"
  std::string variant;  ///< "fp16"; empty for none
  bool is_index = false;

  bool is_standard() const { return name == "diffusion_pytorch_model" || name == "model"; }
};

Status fail(const fs::path& folder, const std::string& what) {
  return io_error(fmt::format("[open_checkpoint] {}: {}", folder.string(), what));
}

/// "model.fp16" -> "model" and "fp16". A variant is what follows the last dot, unless it begins
/// with a digit: "Wan2.1" has none.
void split_variant(Candidate& candidate) {
  const size_t dot = candidate.name.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == candidate.name.size()) return;
  if (candidate.name[dot + 1] >= '0' && candidate.name[dot + 1] <= '9') return;
  candidate.variant = candidate.name.substr(dot + 1);
  candidate.name.resize(dot);
}

bool is_shard(const std::string& name) {
  static const std::regex shard("-[0-9]{5}-of-[0-9]{5}$");
  return std::regex_search(name, shard);
}

/// The file, if its name is that of weights.
bool parse(const fs::path& path, Candidate& candidate) {
  const std::string file = path.filename().string();
  if (file.starts_with('.')) return false;
  candidate = {.path = path, .name = {}, .variant = {}, .is_index = false};
  if (const size_t at = file.find(kIndex); at != file.npos) {
    const std::string_view end = std::string_view(file).substr(at + kIndex.size());
    if (!end.ends_with(kJson)) return false;
    candidate.name = file.substr(0, at);
    candidate.is_index = true;
    if (end == kJson) {
      split_variant(candidate);
      return true;
    }
    const std::string_view variant = end.substr(0, end.size() - kJson.size());
    if (variant.size() < 2 || !variant.ends_with('.')) return false;
    candidate.variant = variant.substr(0, variant.size() - 1);
    return true;
  }
  if (!file.ends_with(kFile)) return false;
  candidate.name = file.substr(0, file.size() - kFile.size());
  if (is_shard(candidate.name)) return false;
  split_variant(candidate);
  return true;
}

Result<std::vector<Candidate>> candidates_in(const fs::path& folder) {
  std::vector<Candidate> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;  // what cannot be looked at is reported when it is opened
    Candidate candidate;
    if (!it->is_directory(ignored) && parse(it->path(), candidate)) found.push_back(candidate);
  }
  if (error) return fail(folder, "expected a readable directory, got: " + error.message());
  std::ranges::sort(found, {}, &Candidate::path);
  return found;
}

/// What a folder without weights has instead: some of another kind, or shards without their index.
std::string instead_in(const fs::path& folder) {
  std::error_code error;
  std::set<fs::path> foreign, shards;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    if (!foreign_weights(file).empty()) foreign.insert(file);
    if (file.extension() == kFile && is_shard(file.stem().string())) shards.insert(file);
  }
  if (!shards.empty()) {
    return fmt::format("{}, a shard, without the index of its model",
                       shards.begin()->filename().string());
  }
  if (foreign.empty()) return "none";
  return fmt::format("{}, {}", foreign.begin()->filename().string(),
                     foreign_weights(*foreign.begin()));
}

std::string list(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) {
    names.push_back(candidate.path.filename().string());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

template <class Predicate>
std::vector<Candidate> those(const std::vector<Candidate>& all, const Predicate& predicate) {
  std::vector<Candidate> chosen;
  std::ranges::copy_if(all, std::back_inserter(chosen), predicate);
  return chosen;
}

/// Those with a property, or all if none has it.
template <class Predicate>
std::vector<Candidate> prefer(const std::vector<Candidate>& all, const Predicate& predicate) {
  std::vector<Candidate> chosen = those(all, predicate);
  return chosen.empty() ? all : chosen;
}

/// What to do about several that fit.
std::string remedy(const std::vector<Candidate>& candidates) {
  std::set<std::string> variants;
  for (const Candidate& candidate : candidates) {
    if (!candidate.variant.empty()) variants.insert(candidate.variant);
  }
  if (variants.empty()) return "move all but one away";
  return fmt::format("choose a variant: {}", fmt::join(variants, ", "));
}

}  // namespace

Result<fs::path> choose_weights(const fs::path& folder, const std::string& variant) {
  const auto all = candidates_in(folder);
  if (!all.ok()) return all.status();
  if (all->empty()) {
    return fail(folder, fmt::format("expected weights (NAME{} or NAME{}json), got {}", kFile,
                                    kIndex, instead_in(folder)));
  }
  std::vector<Candidate> left;
  const auto is_wanted = [&](const Candidate& c) { return c.variant == variant; };
  if (variant.empty()) {
    left = prefer(*all, is_wanted);
  } else if (left = those(*all, is_wanted); left.empty()) {
    return fail(folder,
                fmt::format("expected weights of the variant {}, got {}", variant, list(*all)));
  }
  left = prefer(left, [](const Candidate& c) { return c.is_standard(); });
  left = prefer(left, [](const Candidate& c) { return c.is_index; });
  if (left.size() != 1) {
    return fail(folder,
                fmt::format("expected one file of weights, got {}; {}", list(left), remedy(left)));
  }
  return left.front().path;
}

bool has_variant(const fs::path& folder, const std::string& variant) {
  const auto all = candidates_in(folder);
  return all.ok() &&
         std::ranges::any_of(*all, [&](const Candidate& c) { return c.variant == variant; });
}

}  // namespace vsa::io
