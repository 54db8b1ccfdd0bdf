// A random model small enough to generate a video in milliseconds, in the layout of a real one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vsa::test {

/// A tensor by values; written as f32 or, with `as_f16`, rounded.
struct TinyTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using TinyTensors = std::map<std::string, TinyTensor>;

/// Writes a safetensors file; throws vsa::Error.
void write_tensors(const std::filesystem::path& path, const TinyTensors& tensors,
                   bool as_f16 = false, const std::map<std::string, std::string>& metadata = {});

/// RGB pixels, patch 2x4x4; default video 8 frames of 32x32: grid 4x8x8, 4 tiles of 4x4x4.
/// Everything is public: tests spoil what they want before write().
struct TinyModel {
  explicit TinyModel(uint64_t seed = 1, bool gates = true);

  nlohmann::json index, transformer_config, text_config, scheduler;
  TinyTensors transformer, text_encoder;
  std::map<std::string, std::string> transformer_metadata;
  bool as_f16 = false;

  /// Writes the folder; throws vsa::Error.
  void write(const std::filesystem::path& root) const;
};

}  // namespace vsa::test
