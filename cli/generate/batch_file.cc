// Parses the list of prompts of a batch. Host-only.
#include "cli/generate/batch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/common/text_file.h"
#include "runtime/io/ascii.h"
#include "runtime/text/clean.h"

namespace vsa::cli {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& what,
                            const std::string& hint = "") {
  throw Failure(ExitCode::kInputOutput, fmt::format("--batch {}: {}", path.string(), what), hint);
}

/// The lines of a text, without their ends and without blanks around them.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const size_t first = text.find_first_not_of(" \t\r", start);
    const size_t last = text.find_last_not_of(" \t\r", end == 0 ? 0 : end - 1);
    lines.push_back(first < end ? text.substr(first, last + 1 - first) : "");
    start = end + 1;
  }
  return lines;
}

/// A prompt a line.
Json parse_text(const std::string& text) {
  Json entries = Json::array();
  for (const std::string& line : lines_of(text)) {
    if (!line.empty() && line.front() != '#') entries.push_back({{"prompt", line}});
  }
  return entries;
}

/// Fails with the line in which a text stops being a JSON document.
[[noreturn]] void fail_syntax(const std::filesystem::path& path, const std::string& text) {
  size_t byte = 0;  // counted from 1
  try {
    const Json parsed = Json::parse(text);
  } catch (const Json::parse_error& error) {
    byte = error.byte;
  }
  const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(byte, text.size()));
  fail_file(path, fmt::format("line {}: expected JSON, got a syntax error",
                              std::count(text.begin(), end, '\n') + 1));
}

/// The entries, as JSON lines if the whole is not one document.
Json parse_json(const std::filesystem::path& path, const std::string& text) {
  Json whole = Json::parse(text, nullptr, false);
  if (!whole.is_discarded()) {
    if (!whole.is_object()) return whole;
    if (!whole.contains("prompts")) return Json::array({whole});
    if (whole.size() > 1) {
      for (const auto& [key, value] : whole.items()) {
        if (key != "prompts") warn(fmt::format("--batch: {} beside prompts has no effect", key));
      }
    }
    return whole["prompts"];
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') fail_syntax(path, text);
  Json entries = Json::array();
  size_t line_number = 0;
  for (const std::string& line : lines_of(text)) {
    ++line_number;
    if (line.empty()) continue;
    Json entry = Json::parse(line, nullptr, false);
    if (entry.is_discarded()) {
      fail_file(path, fmt::format("line {}: expected JSON, got something else", line_number),
                "a file of prompts, one a line, has a name that ends in .txt");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Json parse(const std::filesystem::path& path) {
  std::string text = read_text_file("--batch", path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // editors on Windows mark UTF-8 so
  return io::lower_extension(path) == ".txt" ? parse_text(text) : parse_json(path, text);
}

/// A value as a message shows it.
std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
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
  /// A whole number of JSON. 1e3 does not count as one, because a JSON reader may have rounded it.
  std::optional<int64_t> whole(const char* key, const WholeRange& range) const {
    if (!fields_.contains(key)) return std::nullopt;
    const Json& value = fields_[key];
    const bool is_large = value.is_number_unsigned() &&
                          value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    if (!value.is_number_integer() || is_large || value < range.least || value > range.most) {
      fail(fmt::format("{}: expected {}, got {}", key, to_string(range), shown(value)));
    }
    return value.get<int64_t>();
  }
  std::optional<double> number(const char* key, const NumberRange& range) const {
    if (!fields_.contains(key)) return std::nullopt;
    const Json& value = fields_[key];
    if (!value.is_number() || !(value >= range.least && value <= range.most)) {
      fail(fmt::format("{}: expected {}, got {}", key, to_string(range), shown(value)));
    }
    return value.get<double>();
  }
  VideoSettings video() const {
    VideoSettings video;
    video.steps = whole("steps", kStepsRange);
    video.frames = whole("frames", kFramesRange);
    video.guidance = number("guidance", kGuidanceRange);
    video.fps = number("fps", kFpsRange);
    video.keep.sparsity = number("sparsity", kSparsityRange);
    video.keep.keep = number("keep", kKeepRange);
    video.keep.topk = whole("topk", {.least = 1});
    const std::string size = text("size", "");
    try {
      if (fields_.contains("size")) video.size = parse_size("size", size);
      video.keep.check_at_most_one();
    } catch (const Failure& e) {
      fail(e.what());
    }
    return video;
  }
  /// The fields that `video` reads.
  Json own() const {
    Json own = Json::object();
    for (const char* key :
         {"steps", "frames", "guidance", "fps", "sparsity", "keep", "topk", "size"}) {
      if (fields_.contains(key)) own[key] = fields_[key];
    }
    return own;
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
                       shown(Json(name))));
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
                                   const BatchDefaults& defaults) {
  const Json entries = parse(path);
  if (!entries.is_array() || entries.empty()) fail_file(path, "expected a list of prompts");
  const int64_t first_seed = defaults.seed.value_or(0);
  if (first_seed > std::numeric_limits<int64_t>::max() - std::ssize(entries)) {
    fail_usage(fmt::format("--seed: expected room for {} more below 2^63, got {}", entries.size(),
                           first_seed));
  }
  std::vector<BatchEntry> batch;
  std::set<std::string> names;
  for (size_t i = 0; i < entries.size(); ++i) {
    const EntryReader reader(path, i, entries[i]);
    const int64_t seed = first_seed < 0 ? -1 : first_seed + static_cast<int64_t>(i);
    BatchEntry entry{.name = reader.name(),
                     .prompt = reader.text("prompt", ""),
                     .negative_prompt = reader.text("negative_prompt", defaults.negative_prompt),
                     .seed = reader.whole("seed", kSeedRange).value_or(seed),
                     .video = reader.video(),
                     .own = reader.own(),
                     .fields = entries[i]};
    const Result<std::string> prompt = text::clean_prompt(entry.prompt);
    if (!prompt.ok()) reader.fail(plain(prompt.status().message()));
    if (prompt->empty()) reader.fail("prompt: expected a text, got none");
    if (!names.insert(entry.name).second) {
      reader.fail(fmt::format("name: expected a new one, got {} again", entry.name));
    }
    batch.push_back(std::move(entry));
  }
  return batch;
}

}  // namespace vsa::cli
