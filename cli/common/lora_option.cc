// Parses --lora. Host-only.
#include "cli/common/lora_option.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/common/failure.h"
#include "cli/common/option.h"

namespace vsa::cli {
namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at fails when it is opened
  return std::filesystem::exists(path, ignored);
}

constexpr NumberRange kStrengthRange{
    .least = -1000.0, .most = 1000.0, .description = "a number from -1000 to 1000 after the colon"};

}  // namespace

dit::LoraSpec parse_lora(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (is_file(text) || colon == text.npos || text.find('/', colon) != text.npos) {
    if (is_file(text)) return {.file = text};
    throw Failure(ExitCode::kInputOutput, fmt::format("--lora {}: no such file", text));
  }
  const std::string file = text.substr(0, colon);
  const double strength = parse_number("--lora " + file, text.substr(colon + 1), kStrengthRange);
  if (!is_file(file)) {
    throw Failure(ExitCode::kInputOutput, fmt::format("--lora {}: no such file", file));
  }
  return {.file = file, .strength = strength};
}

void add_lora_option(CLI::App& command, std::vector<std::string>& loras) {
  add_values(command,
             {.names = "--lora",
              .kind = kScaledFileKind,
              .help = "merge this LoRA, with strength X (default: 1); may be given several times"},
             loras);
}

}  // namespace vsa::cli
