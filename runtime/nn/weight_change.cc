// What is done to a tensor of a file while it is loaded, such as a LoRA.
#include "runtime/nn/weight_change.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "runtime/io/mmap.h"
#include "runtime/nn/buffer.h"
#include "runtime/nn/convert.h"
#include "vsa/half.h"
#include "vsa/status.h"

namespace vsa::nn {
namespace {

/// Rounds to nearest, ties to even. @return whether all stayed finite
template <class Half>
bool round_to(std::span<const float> values, std::byte* to) {
  const auto n = std::ssize(values);
  bool finite = true;
#pragma omp parallel for schedule(static) reduction(&& : finite)
  for (int64_t i = 0; i < n; ++i) {
    const Half half(values[static_cast<size_t>(i)]);
    finite = finite && std::isfinite(static_cast<float>(half));
    std::memcpy(to + i * 2, &half, 2);
  }
  return finite;
}

bool store(io::StorageType type, std::span<const float> values, std::vector<std::byte>& memory) {
  memory.resize(values.size() * static_cast<size_t>(io::size_bytes(type)));
  if (type == io::StorageType::kF16) return round_to<F16>(values, memory.data());
  if (type == io::StorageType::kBF16) return round_to<BF16>(values, memory.data());
  std::memcpy(memory.data(), values.data(), memory.size());
  bool finite = true;
  for (const float x : values) finite = finite && std::isfinite(x);
  return finite;
}

}  // namespace

ChangedWeight changed(const Weight& weight) {
  if (weight.change == nullptr) return {.weight = weight, .memory = {}};
  Buffer values(weight.num_elements());
  widen_parallel(weight.type, weight.bytes.data(), values.size(), weight.scale, values.data());
  if (weight.in_file) io::release_pages(weight.bytes);
  weight.change->apply(values.span());
  ChangedWeight result{.weight = weight, .memory = {}};
  const bool is_half = io::size_bytes(weight.type) == 2;
  result.weight.type = is_half ? weight.type : io::StorageType::kF32;
  if (!store(result.weight.type, values.span(), result.memory)) {
    throw_if_error(unsupported(
        fmt::format("[load] {}: expected values that {} holds after it was changed, got larger "
                    "ones; a lower strength of the LoRA may help",
                    weight.name, io::name(result.weight.type))));
  }
  result.weight.bytes = result.memory;
  result.weight.scale = 1.0F;
  result.weight.in_file = false;
  result.weight.change = nullptr;
  return result;
}

}  // namespace vsa::nn
