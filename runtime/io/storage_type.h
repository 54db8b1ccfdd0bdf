// The element types a safetensors file can hold. Host-only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vsa/tensor.h"

namespace vsa::io {

/// Wider than vsa::DType: files hold indices, masks and 8-bit weights as well.
enum class StorageType {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
};

/// The spelling used in files: "F32", "BF16", "F8_E4M3", ...
std::string_view name(StorageType type);
/// Bytes per element: 1, 2, 4 or 8.
int64_t size_bytes(StorageType type);
/// The type of that spelling (case matters), or nothing if it is not one of the above.
std::optional<StorageType> storage_type_from_name(std::string_view name);

/// The type attention computes with, or nothing if there is none.
std::optional<DType> to_dtype(StorageType type);
StorageType to_storage_type(DType dtype);

}  // namespace vsa::io
