// Reader of one safetensors file. Host-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/mmap.h"
#include "runtime/io/storage_type.h"
#include "vsa/status.h"

namespace vsa::io {

/// A tensor inside a mapped file, row-major, little-endian. Does not own its memory.
struct TensorView {
  StorageType type = StorageType::kF32;
  std::vector<int64_t> shape;  ///< [] is a scalar; an extent may be 0
  std::span<const std::byte> bytes;

  int64_t num_elements() const { return std::ssize(bytes) / size_bytes(type); }
  /// The format does not promise it: copy the bytes before reading them as numbers if not.
  bool is_aligned() const;
};

/// "F16 [640,256]": how tensors appear in messages.
std::string to_string(const TensorView& tensor);

using TensorMap = std::map<std::string, TensorView, std::less<>>;
using Metadata = std::map<std::string, std::string, std::less<>>;

/// The tensors of a safetensors file held in memory; views point into `bytes`.
struct SafetensorsContents {
  TensorMap tensors;
  Metadata metadata;
};

/// Checks every part of the header before anything is trusted.
/// @param file  how messages name the file
/// @return IoError naming the file and, where there is one, the tensor and the field
Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> bytes,
                                              std::string_view file);

/// One mapped safetensors file. Views stay valid as long as this object, or the one it was moved
/// to, lives. Thread-safe to read.
class SafetensorsFile {
 public:
  /// @return IoError if the file cannot be read or its header is wrong
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  /// Sorted by name.
  const TensorMap& tensors() const { return contents_.tensors; }
  std::vector<std::string> names() const;
  /// nullptr if there is none of that name.
  const TensorView* find(std::string_view name) const;
  const Metadata& metadata() const { return contents_.metadata; }

 private:
  MappedFile file_;
  SafetensorsContents contents_;
};

/// Copies a tensor of F16, BF16, F32 or F64 as fp32.
/// @param out  as many values as the tensor has elements
/// @return InvalidArgument if out has another size or the type is not a float of at least 16 bits
Status copy_as_f32(const TensorView& tensor, std::span<float> out);

}  // namespace vsa::io
