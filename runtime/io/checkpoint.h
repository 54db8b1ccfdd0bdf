// The weights of one model, in one safetensors file or in several with an index. Host-only.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/safetensors.h"

namespace vsa::io {

/// Serves tensors by name, whichever file they are in. Views stay valid as long as this object, or
/// the one it was moved to, lives. Thread-safe to read.
class Checkpoint {
 public:
  /// @param path     a .safetensors file, a .safetensors.index.json whose shards lie beside it, or
  /// a
  ///                 folder, from which choose_weights takes one of these
  /// @param variant  of choose_weights; not read for a file
  /// @return IoError if a file is missing or wrong, if the index and the shards do not name exactly
  ///         the same tensors, or if shards disagree on a metadata value
  static Result<Checkpoint> open(const std::filesystem::path& path,
                                 const std::string& variant = "");

  /// Leaves one part of a file that holds a whole pipeline: only the tensors whose names begin with
  /// the first of the prefixes that occurs. Without any of them the file is that part alone, and
  /// all tensors stay. Names keep their prefix.
  void keep_part(std::span<const std::string_view> prefixes);

  /// Of all shards, sorted by name.
  const TensorMap& tensors() const { return tensors_; }
  /// nullptr if there is none of that name.
  const TensorView* find(std::string_view name) const;
  /// Of all shards together.
  const Metadata& metadata() const { return metadata_; }
  /// The safetensors files that were opened, sorted.
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  /// Sum over all tensors.
  int64_t num_bytes() const;

  /// A fault that was found in the tensors, "[load] ...", with the path behind the tag, so that it
  /// says which file is meant. Any other status comes back as it is.
  Status in_file(const Status& fault) const;

 private:
  Status add(const std::filesystem::path& path);

  std::vector<SafetensorsFile> files_;
  std::vector<std::filesystem::path> paths_;
  TensorMap tensors_;
  Metadata metadata_;
};

}  // namespace vsa::io
