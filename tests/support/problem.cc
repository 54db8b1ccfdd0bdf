#include "tests/support/problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace vsa::test {

TestTensor token_tensor(DType dtype, const Heads& heads, const TilePlan& plan, uint64_t seed,
                        Order order, double sigma) {
  TestTensor tensor = normal_tensor(dtype,
                                    {.batch = heads.batch,
                                     .num_heads = heads.num_heads,
                                     .seq_len = plan.seq_len(),
                                     .head_dim = heads.head_dim},
                                    seed, order, sigma);
  fill_padding(tensor, plan, std::nan(""));
  return tensor;
}

Qkv make_qkv(DType dtype, const Heads& heads, const TilePlan& q_plan, const TilePlan& kv_plan,
             uint64_t seed, Order order) {
  Heads kv_heads = heads;
  kv_heads.num_heads = heads.num_kv_heads;
  return {.q = token_tensor(dtype, heads, q_plan, seed, order),
          .k = token_tensor(dtype, kv_heads, kv_plan, seed + 1, order),
          .v = token_tensor(dtype, kv_heads, kv_plan, seed + 2, order),
          .q_plan = q_plan,
          .kv_plan = kv_plan};
}

TestTensor few_bits_tensor(DType dtype, Dims dims, uint64_t seed, Order order) {
  return normal_tensor(DType::kF64, dims, seed, order)
      .map([](double x) {
        const double size = 0.5 * (1.0 + std::min(3.0, std::floor(2.0 * std::abs(x))));
        return std::copysign(size * (1.0 + std::ldexp(1.0, -12)), x);
      })
      .as(dtype);
}

Qkv few_bits_qkv(DType dtype, const Heads& heads, const TilePlan& q_plan, const TilePlan& kv_plan,
                 Order order) {
  Qkv in = make_qkv(dtype, heads, q_plan, kv_plan, 1, order);
  const auto make_constant = [&](TestTensor& x, const TilePlan& plan, uint64_t seed) {
    Dims dims = x.dims();
    dims.seq_len = plan.num_tiles();
    const TestTensor means = few_bits_tensor(DType::kF64, dims, seed);
    for (int64_t b = 0; b < dims.batch; ++b) {
      for (int64_t h = 0; h < dims.num_heads; ++h) {
        for (int64_t t = 0; t < dims.seq_len; ++t) {
          for (const int32_t s : plan.tokens(t)) {
            for (int64_t d = 0; d < dims.head_dim; ++d) x.set(b, h, s, d, means.at(b, h, t, d));
          }
        }
      }
    }
  };
  make_constant(in.q, q_plan, 4);
  make_constant(in.k, kv_plan, 5);
  return in;
}

LutBuffer random_lut(const Heads& heads, int64_t num_q_tiles, int64_t num_kv_tiles, uint64_t seed) {
  std::mt19937_64 bits(seed);
  LutBuffer lut({.batch = heads.batch,
                 .num_heads = heads.num_heads,
                 .num_q_tiles = num_q_tiles,
                 .pitch = num_kv_tiles});
  const Lut view = lut.view();
  const int64_t num_rows = heads.batch * heads.num_heads * num_q_tiles;
  std::vector<int32_t> tiles(static_cast<size_t>(num_kv_tiles));
  std::iota(tiles.begin(), tiles.end(), 0);
  for (int64_t row = 0; row < num_rows; ++row) {
    auto count = static_cast<int64_t>(bits() % static_cast<uint64_t>(num_kv_tiles + 1));
    if (row == num_rows - 1) count = num_kv_tiles;
    if (row == 0 && num_rows > 1) count = 0;
    std::vector<int32_t> kept = tiles;
    for (size_t i = kept.size(); i > 1; --i) std::swap(kept[i - 1], kept[bits() % i]);
    kept.resize(static_cast<size_t>(count));
    std::ranges::sort(kept);
    std::ranges::copy(kept, view.index + row * num_kv_tiles);
    view.count[row] = static_cast<int32_t>(count);
  }
  return lut;
}

}  // namespace vsa::test
