// The list of prompts that `vsa generate --batch` reads. Host-only.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vsa::cli {

/// One video to generate.
struct BatchEntry {
  std::string name;  ///< unique; safe as part of a file name
  std::string prompt;
  std::string negative_prompt;
  int64_t seed = 0;
  nlohmann::ordered_json fields;  ///< the entry as it stands in the file
};

/// Reads a JSON array of objects, an object {"prompts": [...]}, or one object a
/// line. Fields: prompt; seed (default: `seed` + position); name, or else id
/// (default: position with 5 digits); negative_prompt (default:
/// `negative_prompt`). Others are carried along. Throws Failure(kInputOutput)
/// naming the entry and the field.
std::vector<BatchEntry> read_batch(const std::filesystem::path& path,
                                   const std::string& negative_prompt, int64_t seed);

}  // namespace vsa::cli
