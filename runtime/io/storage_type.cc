// The element types a safetensors file can hold.
#include "runtime/io/storage_type.h"

#include <array>

namespace vsa::io {
namespace {

struct Row {
  StorageType type;
  std::string_view name;
  int64_t size_bytes;
};

// In the order of the enum, so that a type is its own row number.
constexpr std::array kRows{
    Row{StorageType::kBool, "BOOL", 1},      Row{StorageType::kU8, "U8", 1},
    Row{StorageType::kI8, "I8", 1},          Row{StorageType::kF8E4M3, "F8_E4M3", 1},
    Row{StorageType::kF8E5M2, "F8_E5M2", 1}, Row{StorageType::kF8E8M0, "F8_E8M0", 1},
    Row{StorageType::kU16, "U16", 2},        Row{StorageType::kI16, "I16", 2},
    Row{StorageType::kF16, "F16", 2},        Row{StorageType::kBF16, "BF16", 2},
    Row{StorageType::kU32, "U32", 4},        Row{StorageType::kI32, "I32", 4},
    Row{StorageType::kF32, "F32", 4},        Row{StorageType::kU64, "U64", 8},
    Row{StorageType::kI64, "I64", 8},        Row{StorageType::kF64, "F64", 8},
};

const Row& row(StorageType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name(StorageType type) { return row(type).name; }
int64_t size_bytes(StorageType type) { return row(type).size_bytes; }

std::optional<StorageType> storage_type_from_name(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.type;
  }
  return std::nullopt;
}

std::optional<DType> to_dtype(StorageType type) {
  switch (type) {
    case StorageType::kF16:
      return DType::kF16;
    case StorageType::kBF16:
      return DType::kBF16;
    case StorageType::kF32:
      return DType::kF32;
    case StorageType::kF64:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

StorageType to_storage_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return StorageType::kF16;
    case DType::kBF16:
      return StorageType::kBF16;
    case DType::kF64:
      return StorageType::kF64;
    case DType::kF32:
      break;
  }
  return StorageType::kF32;
}

}  // namespace vsa::io
