// The list of prompts that `vsa generate --batch` reads. Host-only.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/generate/options.h"

namespace vsa::cli {

/// One video to generate.
struct BatchEntry {
  std::string name;  ///< unique; safe as part of a file name
  std::string prompt;
  std::string negative_prompt;
  int64_t seed = 0;               ///< -1: a random one
  VideoSettings video;            ///< what the entry asks for itself
  nlohmann::ordered_json own;     ///< the same, as it stands in the file
  nlohmann::ordered_json fields;  ///< the whole entry as it stands in the file
};

/// The values of entries that do not state their own.
struct BatchDefaults {
  std::string negative_prompt;
  /// The seed of the first entry, from which the others count up; -1: a random seed for each entry.
  /// None: 0.
  std::optional<int64_t> seed;
};

/// Reads FILE.txt: a prompt a line, where blank lines and lines that begin with # do not count.
/// Any other name: a JSON array of objects, an object {"prompts": [...]}, or one object a line.
/// Fields: prompt; seed; name, or else id (default: position with 5 digits); negative_prompt;
/// steps, frames, size, guidance, fps, and one of sparsity, topk and keep, as the options of those
/// names. Others are carried along. Throws Failure(kInputOutput) naming the entry and the field.
std::vector<BatchEntry> read_batch(const std::filesystem::path& path,
                                   const BatchDefaults& defaults);

}  // namespace vsa::cli
