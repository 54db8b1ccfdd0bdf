// Whether the tensors of a header and the bytes after it fit each other. Host-only.
#pragma once

#include <cstdint>

#include "runtime/io/safetensors_header.h"
#include "vsa/status.h"

namespace vsa::io {

/// Every tensor has as many bytes as its type and shape need, and together they cover the data
/// without overlap and without holes.
/// @return IoError whose message names the tensor and the field, but not the file
Status check_ranges(const SafetensorsHeader& header, int64_t data_bytes);

}  // namespace vsa::io
