// Weights in the type that a device multiplies with. Host-only.
#include "runtime/device/weight_bytes.h"

#include <algorithm>
#include <cstring>

#include "runtime/nn/parallel.h"
#include "vsa/half.h"

namespace vsa::device {

std::span<const std::byte> as_stored(const nn::Weight& weight, DType dtype) {
  const bool same = io::to_dtype(weight.type) == dtype && weight.scale == 1.0F && !weight.change;
  return same ? weight.bytes : std::span<const std::byte>{};
}

void round_to(DType dtype, std::span<const float> from, void* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from.data(), from.size_bytes());
    return;
  }
  constexpr int64_t kPart = 1 << 14;
  const int64_t size = std::ssize(from);
  auto* const narrow = static_cast<BF16*>(to);
  nn::parallel_rows((size + kPart - 1) / kPart, [&](const nn::RowBlock& parts) {
    const int64_t end = std::min(parts.end * kPart, size);
    for (int64_t i = parts.begin * kPart; i < end; ++i) {
      narrow[i] = BF16(from[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace vsa::device
