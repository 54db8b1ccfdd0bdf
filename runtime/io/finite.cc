// Whether the weights of a checkpoint are numbers.
#include "runtime/io/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/io/printable.h"

namespace vsa::io {
namespace {

/// A type by its bits: not finite if all bits of the exponent are set, and NaN if any below is.
template <class Bits>
struct Layout {
  Bits exponent;
  Bits mantissa;
};
constexpr Layout<uint16_t> kF16{0x7C00, 0x03FF};
constexpr Layout<uint16_t> kBf16{0x7F80, 0x007F};
constexpr Layout<uint32_t> kF32{0x7F800000, 0x007FFFFF};
constexpr Layout<uint64_t> kF64{0x7FF0000000000000, 0x000FFFFFFFFFFFFF};

template <class Bits>
Bits load(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof(bits));  // a tensor may lie at any address
  return bits;
}

constexpr int64_t kPart = 1 << 16;  // elements between two looks at the result: stays in the cache

/// The first element that is not finite, or -1. Branches once a part, so that a part is one loop of
/// vector instructions.
template <class Bits>
int64_t first_not_finite(const TensorView& tensor, Layout<Bits> layout) {
  const int64_t n = tensor.num_elements();
  const int64_t parts = (n + kPart - 1) / kPart;
  int64_t first = n;
#pragma omp parallel for schedule(static) reduction(min : first)
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = part * kPart;
    const int64_t end = std::min(n, begin + kPart);
    const std::byte* const data = tensor.bytes.data();
    bool found = false;
    for (int64_t i = begin; i < end; ++i) {
      found |= (load<Bits>(data + i * static_cast<int64_t>(sizeof(Bits))) & layout.exponent) ==
               layout.exponent;
    }
    for (int64_t i = begin; found && i < end; ++i) {
      const Bits bits = load<Bits>(data + i * static_cast<int64_t>(sizeof(Bits)));
      if ((bits & layout.exponent) == layout.exponent) {
        first = std::min(first, i);
        break;
      }
    }
  }
  return first == n ? -1 : first;
}

template <class Bits>
bool is_nan(const TensorView& tensor, Layout<Bits> layout, int64_t i) {
  const std::byte* const at = tensor.bytes.data() + i * static_cast<int64_t>(sizeof(Bits));
  return (load<Bits>(at) & layout.mantissa) != 0;
}

/// Calls fn(layout) for a floating-point type of 16 bits or more.
template <class Fn>
void with_layout(StorageType type, const Fn& fn) {
  if (type == StorageType::kF16) fn(kF16);
  if (type == StorageType::kBF16) fn(kBf16);
  if (type == StorageType::kF32) fn(kF32);
  if (type == StorageType::kF64) fn(kF64);
}

}  // namespace

Status check_finite(const Checkpoint& checkpoint, std::string_view model) {
  for (const auto& [name, view] : checkpoint.tensors()) {
    Status status;
    with_layout(view.type, [&, &name = name, &view = view](auto layout) {
      const int64_t i = first_not_finite(view, layout);
      if (i < 0) return;
      status =
          io_error(fmt::format("[load] {}: {}: expected finite values, got {} at element {}", model,
                               printable(name), is_nan(view, layout, i) ? "NaN" : "infinity", i));
    });
    VSA_TRY(status);
  }
  return {};
}

}  // namespace vsa::io
