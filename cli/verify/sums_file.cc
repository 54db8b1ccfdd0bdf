// Parses lists of SHA-256 sums, and reports of runs. Host-only.
#include "cli/verify/sums_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/common/failure.h"
#include "cli/common/text_file.h"

namespace vsa::cli {
namespace {

using Json = nlohmann::json;

bool is_sum(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

/// The sums under "files" of a document.
Sums of_json(const Json& document, const std::string& name) {
  const auto fail = [&] {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("{}: files: expected a list of objects with path and sha256", name));
  };
  const Json files = document.value("files", Json());
  if (!files.is_array() || files.empty()) fail();
  Sums sums;
  for (const Json& file : files) {
    const bool complete = file.is_object() && file.contains("path") && file["path"].is_string() &&
                          file.contains("sha256") && file["sha256"].is_string();
    if (!complete || !is_sum(file["sha256"])) fail();
    sums[file["path"]] = file["sha256"];
  }
  return sums;
}

Sums of_lines(const std::string& text, const std::string& name) {
  Sums sums;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::string sum = line.substr(0, 64);
    const bool separated =
        line.size() > 66 && line[64] == ' ' && (line[65] == ' ' || line[65] == '*');
    if (!is_sum(sum) || !separated) {
      throw Failure(ExitCode::kInputOutput,
                    fmt::format("{}:{}: expected 64 hexadecimal digits, two spaces and a path",
                                name, number));
    }
    sums[line.substr(66)] = sum;
  }
  if (sums.empty()) throw Failure(ExitCode::kInputOutput, name + ": expected sums, got none");
  return sums;
}

}  // namespace

Sums read_sums(const std::filesystem::path& file) {
  const std::string name = "--sums " + file.string();
  const std::string text = read_text_file("--sums", file);
  const Json document = Json::parse(text, nullptr, false);
  return document.is_object() ? of_json(document, name) : of_lines(text, name);
}

}  // namespace vsa::cli
