// Writer of safetensors files.
#include "runtime/io/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/atomic_file.h"
#include "runtime/io/safetensors_header.h"

namespace vsa::io {
namespace {

using nlohmann::json;

using Item = TensorMap::value_type;

std::vector<const Item*> in_file_order(const TensorMap& tensors) {
  std::vector<const Item*> items;
  for (const Item& item : tensors) items.push_back(&item);
  std::stable_sort(items.begin(), items.end(), [](const Item* a, const Item* b) {
    return size_bytes(a->second.type) > size_bytes(b->second.type);
  });
  return items;
}

/// The JSON text, padded with spaces so that the data after it starts at a multiple of 64 bytes.
std::string header_text(const std::vector<const Item*>& items, const Metadata& metadata) {
  constexpr size_t kAlignment = 64;
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t begin = 0;
  for (const Item* item : items) {
    const TensorView& view = item->second;
    const size_t end = begin + view.bytes.size();
    header[item->first] = {
        {"dtype", name(view.type)}, {"shape", view.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  const size_t length_bytes = sizeof(uint64_t);
  text.append((kAlignment - (length_bytes + text.size()) % kAlignment) % kAlignment, ' ');
  return text;
}

/// The whole file, before it gets its name.
Result<AtomicFile> write_unnamed(const std::filesystem::path& path, const TensorMap& tensors,
                                 const Metadata& metadata) {
  const auto wrong = [&path](std::string_view what) {
    return invalid_argument(fmt::format("[write_safetensors] {}: {}", path.string(), what));
  };
  if (tensors.contains("__metadata__")) {
    return wrong("tensor name: expected another one than __metadata__, which the format reserves");
  }
  const std::vector<const Item*> items = in_file_order(tensors);
  std::string header;
  try {
    header = header_text(items, metadata);
  } catch (const json::type_error&) {
    return wrong("names and metadata: expected UTF-8, got other bytes");
  }
  int64_t data_bytes = 0;
  for (const Item* item : items) data_bytes += std::ssize(item->second.bytes);
  // Nothing is written that the reader would refuse.
  const auto readable = parse_safetensors_header(header, data_bytes, path.string());
  if (!readable.ok()) return invalid_argument(readable.status().message());

  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  const uint64_t header_bytes = header.size();
  VSA_TRY(file->write(std::as_bytes(std::span(&header_bytes, 1))));
  VSA_TRY(file->write(header));
  for (const Item* item : items) VSA_TRY(file->write(item->second.bytes));
  return file;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                         const Metadata& metadata) {
  Result<AtomicFile> file = write_unnamed(path, tensors, metadata);
  return file.ok() ? file->commit() : file.status();
}

Result<WrittenFile> write_new_safetensors(const std::filesystem::path& path,
                                          const TensorMap& tensors, const Metadata& metadata) {
  Result<AtomicFile> file = write_unnamed(path, tensors, metadata);
  if (!file.ok()) return file.status();
  return file->commit_to_free_name();
}

}  // namespace vsa::io
