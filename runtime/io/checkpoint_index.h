// The index of a sharded checkpoint: which file holds which tensor. Host-only.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "vsa/status.h"

namespace vsa::io {

/// Tensor name -> file name (no directories in it).
using WeightMap = std::map<std::string, std::string, std::less<>>;

/// Reads `{"metadata": {...}, "weight_map": {tensor: file}}`. The metadata is not used: writers put
/// a total_size there that counts shared tensors differently, so it checks nothing.
/// @param file  how messages name the index
/// @return IoError for anything but that, a key given twice, or a file name that leads elsewhere
Result<WeightMap> parse_checkpoint_index(std::string_view json, std::string_view file);

}  // namespace vsa::io
