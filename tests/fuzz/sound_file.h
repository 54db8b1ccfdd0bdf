// What must hold of any bytes given to the safetensors reader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/safetensors.h"

namespace vsa::test {

/// Reads the bytes as a file. Empty if they were refused with a proper error, or accepted and every
/// tensor lies inside, as large as its shape says and apart from the others; else what is wrong.
inline std::string fault_in_reading(std::span<const std::byte> file) {
  const auto contents = io::parse_safetensors(file, "f");
  if (!contents.ok()) {
    const Status& status = contents.status();
    const bool proper = status.code() == StatusCode::kIoError &&
                        status.message().starts_with("[read_safetensors] f: ") &&
                        status.message().find('\n') == std::string::npos;
    return proper ? "" : "an improper error: " + status.message();
  }
  std::vector<std::span<const std::byte>> views;
  for (const auto& [name, tensor] : contents->tensors) {
    int64_t bytes = io::size_bytes(tensor.type);
    for (const int64_t extent : tensor.shape) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return name + ": shape";
    }
    if (bytes != std::ssize(tensor.bytes)) return name + ": size";
    if (bytes == 0) continue;
    if (tensor.bytes.data() < file.data() ||
        tensor.bytes.data() + bytes > file.data() + file.size()) {
      return name + ": outside the file";
    }
    views.push_back(tensor.bytes);
    std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
    (void)io::copy_as_f32(tensor, values);  // reads every byte, or refuses the type
  }
  std::ranges::sort(views, {}, [](const auto& view) { return view.data(); });
  for (size_t i = 1; i < views.size(); ++i) {
    if (views[i - 1].data() + views[i - 1].size() > views[i].data()) return "overlapping tensors";
  }
  return "";
}

}  // namespace vsa::test
