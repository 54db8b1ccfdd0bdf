#include "tests/runtime_support/random_umt5.h"

#include <cmath>
#include <cstring>

#include "runtime/nn/parallel.h"
#include "vsa/half.h"

namespace vsa::test {
namespace {

/// Evenly distributed with mean 0 and variance 1: much faster than normal(), of which a large
/// encoder would need 10^9.
float uniform(uint64_t seed, uint64_t index) {
  uint64_t x = (seed << 40U) + index * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  x ^= x >> 31U;
  const double unit = static_cast<double>(x >> 11U) * std::ldexp(1.0, -53);
  return static_cast<float>((2.0 * unit - 1.0) * std::sqrt(3.0));
}

}  // namespace

nn::Weight RandomUmt5::add(std::vector<int64_t> shape, double sigma, double mean) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  auto& bytes = memory_.emplace_back(static_cast<size_t>(size * size_bytes(stored_)));
  const uint64_t seed = ++seed_;
  constexpr int64_t kPart = 4096;
  nn::parallel_rows((size + kPart - 1) / kPart, [&](const nn::RowBlock& parts) {
    const int64_t end = std::min(parts.end * kPart, size);
    for (int64_t i = parts.begin * kPart; i < end; ++i) {
      const float x = static_cast<float>(mean) +
                      static_cast<float>(sigma) * uniform(seed, static_cast<uint64_t>(i));
      const BF16 half(x);
      const void* const from = stored_ == DType::kF32 ? static_cast<const void*>(&x) : &half;
      std::memcpy(bytes.data() + i * size_bytes(stored_), from,
                  static_cast<size_t>(size_bytes(stored_)));
    }
  });
  return {.name = "random",
          .type = io::to_storage_type(stored_),
          .shape = std::move(shape),
          .bytes = bytes};
}

nn::LinearWeights RandomUmt5::linear(int64_t in, int64_t out, double sigma) {
  return {.dims = {in, out}, .weight = add({out, in}, sigma), .bias = {}};
}

RandomUmt5::RandomUmt5(const text::Umt5Config& config, DType stored, uint64_t seed)
    : stored_(stored), seed_(seed * 1000) {
  const text::Umt5Config& c = config;
  weights.config = c;
  const double of_model = 1.0 / std::sqrt(static_cast<double>(c.d_model));
  const double of_inner = 1.0 / std::sqrt(static_cast<double>(c.inner()));
  const double of_ff = 1.0 / std::sqrt(static_cast<double>(c.d_ff));
  // There is no 1 / sqrt(d_kv) in the scores, so it is in q.
  const double of_q = of_model / std::sqrt(static_cast<double>(c.d_kv));
  for (int64_t n = 0; n < c.num_layers; ++n) {
    weights.layers.push_back({.norm1 = add({c.d_model}, 0.1, 1.0),
                              .norm2 = add({c.d_model}, 0.1, 1.0),
                              .q = linear(c.d_model, c.inner(), of_q),
                              .k = linear(c.d_model, c.inner(), of_model),
                              .v = linear(c.d_model, c.inner(), of_model),
                              .out = linear(c.inner(), c.d_model, of_inner),
                              .relative_bias = add({c.num_buckets, c.num_heads}, 0.5),
                              .gelu_in = linear(c.d_model, c.d_ff, of_model),
                              .linear_in = linear(c.d_model, c.d_ff, of_model),
                              .down = linear(c.d_ff, c.d_model, of_ff)});
  }
  weights.final_norm = add({c.d_model}, 0.1, 1.0);
}

}  // namespace vsa::test
