#include "tests/support/magnitude.h"

#include <cmath>

#include "src/core/element.h"
#include "src/core/lut_row.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

double sum_of_products(const std::vector<double>& a, const std::vector<double>& b, bool absolute) {
  double sum = 0.0;
  for (size_t d = 0; d < a.size(); ++d) sum += absolute ? std::abs(a[d] * b[d]) : a[d] * b[d];
  return sum;
}

void add_abs(TestTensor& to, int64_t b, int64_t h, int64_t s, double factor,
             const std::vector<double>& x) {
  for (size_t d = 0; d < x.size(); ++d) {
    const auto column = static_cast<int64_t>(d);
    to.set(b, h, s, column, to.at(b, h, s, column) + factor * std::abs(x[d]));
  }
}

}  // namespace

double scale_of(const Qkv& in) {
  return static_cast<double>(in.scale.value_or(default_scale(in.q.dims().head_dim)));
}

Qkv with_abs_v(const Qkv& in) {
  Qkv result = as_f64(in);
  result.v = in.v.abs();
  return result;
}

TestTensor abs_gate(const Gate& gate, const TestTensor& x) {
  TestTensor result(DType::kF64, x.dims());
  const Dims dims = x.dims();
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        if (!gate.is_tensor()) {
          result.set_row(b, h, s, std::abs(static_cast<double>(gate.as_constant())));
          continue;
        }
        const auto row = load_row(gate.as_tensor(), b, h, s);
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          result.set(b, h, s, d, std::abs(row[static_cast<size_t>(d)]));
        }
      }
    }
  }
  return result;
}

Qkv rows_as_tiles(const Qkv& pooled) {
  Qkv result = as_f64(pooled);
  const std::vector<int32_t> q_len(static_cast<size_t>(pooled.q.dims().seq_len), 1);
  std::vector<int32_t> kv_len;
  for (int64_t j = 0; j < pooled.kv_plan.num_tiles(); ++j) {
    kv_len.push_back(pooled.kv_plan.tile_len(j) > 0 ? 1 : 0);
  }
  result.q_plan = TilePlan::tiled(q_len, 1).value();
  result.kv_plan = TilePlan::tiled(kv_len, 1).value();
  return result;
}

LutBuffer all_tiles(const Qkv& in) {
  return full_lut(in.q.dims().batch, in.q.dims().num_heads, in.q_plan.num_tiles(),
                  in.kv_plan.num_tiles());
}

Gradients gradient_magnitudes(const Qkv& in, const ConstLut& lut, const FineResult& forward,
                              const TestTensor& dout) {
  Gradients sum{.dq = constant_tensor(DType::kF64, in.q.dims(), 0.0),
                .dk = constant_tensor(DType::kF64, in.k.dims(), 0.0),
                .dv = constant_tensor(DType::kF64, in.k.dims(), 0.0)};
  const double scale = scale_of(in);
  const Dims dims = in.q.dims();
  const int64_t group_size = dims.num_heads / in.k.dims().num_heads;
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t i = 0; i < in.q_plan.num_tiles(); ++i) {
        for (const int32_t row : in.q_plan.tokens(i)) {
          const auto q = load_row(in.q.view(), b, h, row);
          const auto dout_row = load_row(dout.view(), b, h, row);
          const auto out = load_row(forward.out.view(), b, h, row);
          const double dout_dot_out = sum_of_products(dout_row, out, true);
          for (const int32_t j : lut_row(lut, b, h, i)) {
            for (const int32_t key : in.kv_plan.tokens(j)) {
              const auto k = load_row(in.k.view(), b, h / group_size, key);
              const auto v = load_row(in.v.view(), b, h / group_size, key);
              const double p =
                  std::exp(scale * sum_of_products(q, k, false) - forward.lse.at(b, h, row, 0));
              const double ds = p * (sum_of_products(dout_row, v, true) + dout_dot_out);
              add_abs(sum.dv, b, h / group_size, key, p, dout_row);
              add_abs(sum.dq, b, h, row, std::abs(scale) * ds, k);
              add_abs(sum.dk, b, h / group_size, key, std::abs(scale) * ds, q);
            }
          }
        }
      }
    }
  }
  return sum;
}

TestTensor product(const TestTensor& a, const TestTensor& b) {
  TestTensor result(DType::kF64, a.dims());
  std::vector<double> x = a.values();
  const std::vector<double> y = b.values();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= y[i];
  result.set_values(x);
  return result;
}

TestTensor sum(const TestTensor& a, const TestTensor& b) {
  TestTensor result(DType::kF64, a.dims());
  std::vector<double> x = a.values();
  const std::vector<double> y = b.values();
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  result.set_values(x);
  return result;
}

Qkv pooled_f64(const Qkv& in) {
  const Qkv wide = as_f64(in);
  return {.q = run_pool(kReference, wide.q, in.q_plan),
          .k = run_pool(kReference, wide.k, in.kv_plan),
          .v = run_pool(kReference, wide.v, in.kv_plan),
          .q_plan = in.q_plan,
          .kv_plan = in.kv_plan,
          .scale = in.scale};
}

TestTensor coarse_magnitude(const Qkv& in) {
  const Qkv pooled = pooled_f64(in);
  const TestTensor v = run_pool(kReference, in.v.abs(), in.kv_plan);
  return run_coarse(kReference, pooled.q, pooled.k, v, in.kv_plan, in.scale).out;
}

}  // namespace vsa::test
