#include "cli/generate/batch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "cli/common/failure.h"
#include "cli/common/text_file.h"
#include "runtime/text/clean.h"

namespace vsa::cli {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& what) {
  throw Failure(ExitCode::kInputOutput, fmt::format("--batch {}: {}", path.string(), what));
}

/// The entries, as JSON lines if the whole is not one document.
Json parse(const std::filesystem::path& path, const std::string& text) {
  Json whole = Json::parse(text, nullptr, false);
  if (!whole.is_discarded()) {
    if (whole.is_object() && whole.contains("prompts")) return whole["prompts"];
    return whole.is_object() ? Json::array({whole}) : whole;
  }
  Json entries = Json::array();
  size_t line_number = 1;
  for (size_t start = 0; start < text.size(); ++line_number) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json entry = Json::parse(line, nullptr, false);
    if (entry.is_discarded()) {
      fail_file(path, fmt::format("line {}: expected JSON, got something else", line_number));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Reads the fields of one entry.
class EntryReader {
 public:
  EntryReader(const std::filesystem::path& path, size_t position, const Json& fields)
      : path_(path), position_(position), fields_(fields) {
    if (!fields.is_object()) fail("expected an object");
  }
  std::string text(const char* key, const std::string& fallback) const {
    if (!fields_.contains(key)) return fallback;
    if (!fields_[key].is_string()) fail(fmt::format("{}: expected a string", key));
    return fields_[key].get<std::string>();
  }
  int64_t seed(int64_t fallback) const {
    if (!fields_.contains("seed")) return fallback;
    const Json& seed = fields_["seed"];
    const bool is_large = seed.is_number_unsigned() &&
                          seed.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    if (!seed.is_number_integer() || seed < 0 || is_large) {
      fail("seed: expected an integer from 0 to 2^63 - 1");
    }
    return seed.get<int64_t>();
  }
  std::string name() const {
    std::string name = text("name", fmt::format("{:05}", position_));
    if (!fields_.contains("name") && fields_.contains("id")) {
      name = fields_["id"].is_string() ? fields_["id"].get<std::string>() : fields_["id"].dump();
    }
    const auto allowed = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '-' || c == '_' || c == '.';
    };
    if (name.empty() || name.front() == '.' || !std::ranges::all_of(name, allowed)) {
      fail(fmt::format("name: expected letters, digits, '-', '_' and '.', got {}",
                       Json(name).dump(-1, ' ', true, Json::error_handler_t::replace)));
    }
    return name;
  }
  [[noreturn]] void fail(const std::string& what) const {
    fail_file(path_, fmt::format("entry {}: {}", position_, what));
  }

 private:
  const std::filesystem::path& path_;
  size_t position_;
  const Json& fields_;
};

}  // namespace

std::vector<BatchEntry> read_batch(const std::filesystem::path& path,
                                   const std::string& negative_prompt, int64_t seed) {
  const Json entries = parse(path, read_text_file("--batch", path));
  if (!entries.is_array() || entries.empty()) fail_file(path, "expected a list of prompts");
  if (seed > std::numeric_limits<int64_t>::max() - std::ssize(entries)) {
    fail_usage(
        fmt::format("--seed: expected room for {} more below 2^63, got {}", entries.size(), seed));
  }
  std::vector<BatchEntry> batch;
  std::set<std::string> names;
  for (size_t i = 0; i < entries.size(); ++i) {
    const EntryReader reader(path, i, entries[i]);
    BatchEntry entry{.name = reader.name(),
                     .prompt = reader.text("prompt", ""),
                     .negative_prompt = reader.text("negative_prompt", negative_prompt),
                     .seed = reader.seed(seed + static_cast<int64_t>(i)),
                     .fields = entries[i]};
    if (take(text::clean_prompt(entry.prompt)).empty())
      reader.fail("prompt: expected a text, got none");
    if (!names.insert(entry.name).second) {
      reader.fail(fmt::format("name: expected a new one, got {} again", entry.name));
    }
    batch.push_back(std::move(entry));
  }
  return batch;
}

}  // namespace vsa::cli
