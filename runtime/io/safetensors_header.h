// The JSON header of a safetensors file, checked in full. Host-only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/storage_type.h"
#include "vsa/status.h"

namespace vsa::io {

/// What a header says of one tensor; begin and end count bytes from the end of the header.
struct TensorEntry {
  StorageType type = StorageType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, TensorEntry, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// The largest header that the format allows.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// Reads the header text and checks everything that it says against the `data_bytes` that follow
/// it: tensors cover them in some order without overlap and without holes.
/// @param file  how messages name the file
/// @return IoError naming the file, the tensor and the field
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                                   std::string_view file);

}  // namespace vsa::io
