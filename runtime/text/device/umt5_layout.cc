// What the umT5 text encoder takes of a device's memory, and how it lies there. Host-only.
#include "runtime/text/device/umt5_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace vsa::text::device {
namespace {

constexpr int64_t kF32 = 4;
constexpr int64_t kStep = 8;                      // of the widths that `linear` takes
constexpr int64_t kProducts = int64_t{32} << 20;  // the largest workspace of `linear`

}  // namespace

int64_t split_width(int64_t width, int64_t step, int64_t most) {
  for (int64_t head_dim = most / step * step; head_dim > 0; head_dim -= step) {
    if (width % head_dim == 0) return head_dim;
  }
  return 0;
}

Status check_config(const Umt5Config& config, BackendId backend, const BackendTraits& traits) {
  const auto refused = [&](const char* field, const std::string& expected, int64_t got) {
    return unsupported(fmt::format("[load] text encoder: {}: expected {} on the {} backend, got {}",
                                   field, expected, name(backend), got));
  };
  const int64_t step = std::min(kStep, traits.head_dim_step);
  if (config.d_kv % step != 0 || config.d_kv > traits.max_head_dim) {
    return refused("d_kv", fmt::format("a multiple of {} up to {}", step, traits.max_head_dim),
                   config.d_kv);
  }
  if (config.inner() % kStep != 0) {
    return refused("num_heads * d_kv", fmt::format("a multiple of {}", kStep), config.inner());
  }
  if (config.d_model % kStep != 0) {
    return refused("d_model", fmt::format("a multiple of {}", kStep), config.d_model);
  }
  // The gated product is one of tokens with heads of attention.
  const int64_t ff_step = std::max(kStep, traits.head_dim_step);
  if (config.d_ff % ff_step != 0) {
    return refused("d_ff", fmt::format("a multiple of {}", ff_step), config.d_ff);
  }
  return {};
}

int64_t bias_row(int64_t num_tokens) { return (2 * num_tokens - 1 + kStep - 1) / kStep * kStep; }

int64_t memory_needed_bytes(const Umt5Config& c, DType token_dtype, int64_t num_tokens) {
  const int64_t token = size_bytes(token_dtype);
  const int64_t layers = std::min<int64_t>(c.num_layers, 2) * LayerLayout(c).size * token;
  const int64_t norms = (2 * c.num_layers + 1) * c.d_model * kF32;
  const int64_t biases = c.num_layers * c.num_heads * bias_row(num_tokens) * kF32;
  const int64_t per_token = c.d_model * kF32 + (2 * c.d_model + std::max(3 * c.inner(), c.d_ff) +
                                                c.d_ff + std::max(c.inner(), c.d_ff)) *
                                                   token;
  return layers + norms + biases + num_tokens * per_token + kProducts;
}

}  // namespace vsa::text::device
