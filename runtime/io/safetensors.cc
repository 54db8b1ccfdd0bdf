// Reader of one safetensors file.
#include "runtime/io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <utility>

#include "runtime/io/file_kind.h"
#include "runtime/io/safetensors_header.h"
#include "vsa/half.h"

namespace vsa::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are used in place, and the format is little-endian");

constexpr size_t kLengthBytes = 8;  // the file begins with the header's length, u64

/// memcpy per element, since a tensor may lie at any address; it compiles to plain loads.
template <class T, class Convert>
void convert_all(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(element);
  }
}

}  // namespace

bool TensorView::is_aligned() const {
  return reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(size_bytes(type)) == 0;
}

std::string to_string(const TensorView& tensor) {
  return fmt::format("{} [{}]", name(tensor.type), fmt::join(tensor.shape, ","));
}

Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> bytes,
                                              std::string_view file) {
  const auto fail = [file](std::string_view what) {
    return io_error(fmt::format("[read_safetensors] {}: {}", file, what));
  };
  if (bytes.size() < kLengthBytes) {
    return fail(fmt::format("file size: expected at least 8 bytes, got {}", bytes.size()));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes) {
    return fail(fmt::format("header length: expected at most {} bytes, got {}", kMaxHeaderBytes,
                            header_bytes));
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    return fail(
        fmt::format("header length: expected at most the {} bytes that the file has, got {}",
                    bytes.size() - kLengthBytes, header_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              header_bytes);
  const auto data = bytes.subspan(kLengthBytes + header_bytes);
  Result<SafetensorsHeader> header = parse_safetensors_header(text, std::ssize(data), file);
  if (!header.ok()) return header.status();

  SafetensorsContents contents;
  for (auto& [tensor, entry] : header->tensors) {
    contents.tensors[tensor] = {entry.type, std::move(entry.shape),
                                data.subspan(static_cast<size_t>(entry.begin),
                                             static_cast<size_t>(entry.end - entry.begin))};
  }
  contents.metadata = std::move(header->metadata);
  return contents;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  Result<SafetensorsContents> contents = parse_safetensors(file->bytes(), path.string());
  if (!contents.ok()) {
    // What is too short for a header, or has its brace in its place, is a damaged safetensors file:
    // which check failed says more than the kind.
    const bool has_header =
        file->bytes().size() <= kLengthBytes || file->bytes()[kLengthBytes] == std::byte{'{'};
    if (has_header && !is_known_kind(file->bytes())) return contents.status();
    const std::string kind = file_kind(file->bytes());
    const bool is_torch = kind.find("PyTorch") != kind.npos;
    return io_error(fmt::format("[read_safetensors] {}: expected a safetensors file, got {}{}",
                                path.string(), kind,
                                is_torch ? " with: " + how_to_convert(path) : ""));
  }
  SafetensorsFile result;
  result.file_ = std::move(*file);
  result.contents_ = std::move(*contents);
  return result;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> result;
  for (const auto& [tensor, view] : tensors()) result.push_back(tensor);
  return result;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = tensors().find(name);
  return found == tensors().end() ? nullptr : &found->second;
}

Status copy_as_f32(const TensorView& tensor, std::span<float> out) {
  if (std::ssize(out) != tensor.num_elements()) {
    return invalid_argument(fmt::format("[copy_as_f32] out: expected {} values, got {}",
                                        tensor.num_elements(), out.size()));
  }
  switch (tensor.type) {
    case StorageType::kF16:
      convert_all<F16>(tensor.bytes, out, [](F16 x) { return static_cast<float>(x); });
      return {};
    case StorageType::kBF16:
      convert_all<BF16>(tensor.bytes, out, [](BF16 x) { return static_cast<float>(x); });
      return {};
    case StorageType::kF32:
      if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
      return {};
    case StorageType::kF64:
      convert_all<double>(tensor.bytes, out, [](double x) { return static_cast<float>(x); });
      return {};
    default:
      return invalid_argument(fmt::format(
          "[copy_as_f32] tensor: expected F16, BF16, F32 or F64, got {}", to_string(tensor)));
  }
}

}  // namespace vsa::io
