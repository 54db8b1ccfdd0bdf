#include "tests/support/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/core/element.h"
#include "tests/support/magnitude.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

/// Unit roundoff of the arithmetic: fp32 inside every backend, fp64 in the reference given f64.
double unit(DType dtype) { return dtype == DType::kF64 ? 0x1p-53 : 0x1p-24; }

/// What may vanish at the small end of the exponent range: half the spacing of f16's subnormals;
/// for the others the smallest normal number, as subnormals may be flushed to 0, times 2^10 for
/// what it may have been multiplied by.
double tiny(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-25;
    case DType::kF64:
      return 0x1p-1012;
    default:
      return 0x1p-116;
  }
}

/// relative * magnitude + tiny, for every element.
Tolerance relative_to(const TestTensor& magnitude, double relative, DType dtype,
                      std::string origin) {
  std::vector<double> bound = magnitude.values();
  for (double& x : bound) x = relative * x + tiny(dtype);
  return {.bound = std::move(bound),
          .origin = fmt::format("{:.3g} * {}", relative, std::move(origin))};
}

/// The largest Euclidean norm of a row at a valid position.
double max_norm(const TestTensor& x, const TilePlan& plan) {
  double max = 0.0;
  for (int64_t b = 0; b < x.dims().batch; ++b) {
    for (int64_t h = 0; h < x.dims().num_heads; ++h) {
      for (int64_t t = 0; t < plan.num_tiles(); ++t) {
        for (const int32_t s : plan.tokens(t)) {
          double sum = 0.0;
          for (const double e : load_row(x.view(), b, h, s)) sum += e * e;
          max = std::max(max, std::sqrt(sum));
        }
      }
    }
  }
  return max;
}

/// At least sum_d scale |q_d| |k_d| for every pair of rows, by Cauchy and Schwarz.
double score_bound(const Qkv& in) {
  return std::abs(scale_of(in)) * max_norm(in.q, in.q_plan) * max_norm(in.k, in.kv_plan);
}

/// Relative error of softmax weights: scores are sums of head_dim products, each rounded, of
/// operands that were themselves rounded `operand_roundings` times; exp turns their absolute error
/// into a relative one, once in the numerator and once in the normaliser. 8: exp, log, division.
double weight_error(const Qkv& in, double operand_roundings = 0.0) {
  const auto head_dim = static_cast<double>(in.q.dims().head_dim);
  return 2.0 * (head_dim + 5.0 + 2.0 * operand_roundings) * score_bound(in) + 8.0;
}

/// How many terms the longest sum in a gradient has: over the keys for dq, over the queries of all
/// heads of a group for dk and dv.
double longest_sum(const Qkv& in) {
  const int64_t group_size = in.q.dims().num_heads / in.k.dims().num_heads;
  return static_cast<double>(
      std::max(in.kv_plan.num_valid_tokens(), in.q_plan.num_valid_tokens() * group_size));
}

/// What a sum in dq or dk may lose if ds is an operand in f16: half the spacing of its subnormals a
/// term. (p, at most 1, can be kept from there by a power of two; ds has no such bound.)
double lost_of_ds(const Qkv& in) {
  if (in.q.dtype() != DType::kF16) return 0.0;
  double largest = 0.0;
  for (const TestTensor* x : {&in.q, &in.k}) {
    for (const double e : x->values()) largest = std::max(largest, std::abs(e));  // NaN: padding
  }
  return tiny(DType::kF16) * std::abs(scale_of(in)) * longest_sum(in) * largest;
}

GradientTolerance gradient_tolerance(const Gradients& magnitude, double relative, DType dtype) {
  return {.dq = relative_to(magnitude.dq, relative, dtype, "scale sum_j |ds_ij| |k_j|"),
          .dk = relative_to(magnitude.dk, relative, dtype, "scale sum_i |ds_ij| |q_i|"),
          .dv = relative_to(magnitude.dv, relative, dtype, "sum_i p_ij |dout_i|")};
}

Tolerance widened(Tolerance tolerance, double by) {
  for (double& x : tolerance.bound) x += by;
  return tolerance;
}
/// The same for gradients that went through the fine stage.
GradientTolerance fine_gradient_tolerance(const Gradients& magnitude, double relative,
                                          const Qkv& in) {
  const GradientTolerance t = gradient_tolerance(magnitude, relative, in.q.dtype());
  return {.dq = widened(t.dq, lost_of_ds(in)), .dk = widened(t.dk, lost_of_ds(in)), .dv = t.dv};
}

/// Relative error of a gradient: of the weights, of dout . v and dout . out, of the sum.
double gradient_error(const Qkv& in) {
  return weight_error(in) + static_cast<double>(in.q.dims().head_dim) + 4.0 + longest_sum(in) +
         std::log(longest_sum(in));
}

/// Relative fp32 error of the whole operator's forward: pooling rounds once per token of a tile.
double attention_error(const Qkv& in) {
  const auto tile_tokens =
      static_cast<double>(std::max(in.q_plan.tile_tokens(), in.kv_plan.tile_tokens()));
  return weight_error(in, tile_tokens + 2.0) + static_cast<double>(in.kv_plan.seq_len()) +
         tile_tokens + 8.0;
}

}  // namespace

double eps(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF64:
      return 0x1p-52;
  }
  return 0.0;
}

Tolerance pool_tolerance(const TestTensor& x, const TilePlan& plan) {
  const double relative = unit(x.dtype()) * (static_cast<double>(plan.tile_tokens()) + 2.0);
  return relative_to(run_pool(kReference, x.abs(), plan), relative, tile_dtype(x.dtype()),
                     "mean |x|");
}

Tolerance pool_backward_tolerance(const TestTensor& dpooled, const TilePlan& plan, DType dtype) {
  const double relative = eps(dtype) / 2.0 + 2.0 * unit(dtype);
  return relative_to(run_pool_backward(kReference, dpooled.abs(), plan, DType::kF64), relative,
                     dtype, "|dpooled| / tile_len");
}

CoarseTolerance coarse_tolerance(const Qkv& pooled) {
  const Qkv tiles = rows_as_tiles(pooled);
  const DType dtype = pooled.q.dtype();
  TestTensor scores = run_coarse(kReference, pooled.q.abs(), pooled.k.abs(), pooled.v.abs(),
                                 pooled.kv_plan, pooled.scale)
                          .scores;
  // Scores of -inf have no rounding; anything finite will do as their magnitude.
  scores = scores.map([](double x) { return std::isinf(x) ? 0.0 : std::abs(x); });
  const FineResult out = run_fine(kReference, with_abs_v(tiles), all_tiles(tiles).view());
  const double head_dim = static_cast<double>(pooled.q.dims().head_dim);
  const double terms = static_cast<double>(pooled.k.dims().seq_len);
  return {.scores =
              relative_to(scores, unit(dtype) * (head_dim + 2.0), dtype, "scale sum_d |q_d| |k_d|"),
          .out = relative_to(out.out, unit(dtype) * (terms + weight_error(tiles)) + eps(dtype),
                             dtype, "sum_j p_j |v_j|")};
}

GradientTolerance coarse_backward_tolerance(const Qkv& pooled, const TestTensor& dcoarse_out) {
  const Qkv tiles = rows_as_tiles(pooled);
  const LutBuffer lut = all_tiles(tiles);
  const FineResult forward = run_fine(kReference, tiles, lut.view());
  const DType dtype = pooled.q.dtype();
  return gradient_tolerance(gradient_magnitudes(tiles, lut.view(), forward, dcoarse_out),
                            eps(dtype) + unit(dtype) * gradient_error(tiles), dtype);
}

FineTolerance fine_tolerance(const Qkv& in, const ConstLut& lut) {
  const DType dtype = in.q.dtype();
  const FineResult magnitude = run_fine(kReference, with_abs_v(in), lut);
  const double keys = static_cast<double>(in.kv_plan.num_valid_tokens());
  const double fp32 = unit(dtype) * (keys + weight_error(in));
  // Of lse = -inf any finite bound will do: only -inf itself is at distance 0.
  const TestTensor lse =
      magnitude.lse.map([](double x) { return std::isinf(x) ? 0.0 : 1.0 + std::abs(x); });
  return {.out = relative_to(magnitude.out, eps(dtype) + fp32, dtype, "sum_j p_j |v_j|"),
          .lse = relative_to(lse, eps(tile_dtype(dtype)) + fp32, dtype, "(1 + |lse|)")};
}

GradientTolerance fine_backward_tolerance(const Qkv& in, const ConstLut& lut,
                                          const FineResult& forward, const TestTensor& dout) {
  const DType dtype = in.q.dtype();
  return fine_gradient_tolerance(gradient_magnitudes(in, lut, forward, dout),
                                 eps(dtype) + unit(dtype) * gradient_error(in), in);
}

Tolerance rounded_coarse_out_tolerance(const Qkv& pooled) {
  const TestTensor magnitude =
      run_coarse(kReference, pooled.q.as(DType::kF64), pooled.k.as(DType::kF64), pooled.v.abs(),
                 pooled.kv_plan, pooled.scale, CoarseRounding::kBf16)
          .out;
  return relative_to(magnitude, 2.0 * eps(DType::kBF16), DType::kBF16, "sum p |v|");
}

Tolerance combine_tolerance(const TestTensor& fine_out, const TestTensor& coarse_out,
                            const Gate& gate_coarse, const Gate& gate_fine,
                            const TilePlan& q_plan) {
  const DType dtype = fine_out.dtype();
  const TestTensor coarse_gate = abs_gate(gate_coarse, fine_out);
  const TestTensor fine_gate = abs_gate(gate_fine, fine_out);
  const TestTensor magnitude =
      run_combine(kReference, fine_out.abs(), coarse_out.abs(), Gate::tensor(coarse_gate.view()),
                  Gate::tensor(fine_gate.view()), q_plan);
  return relative_to(magnitude, eps(dtype) / 2.0 + 3.0 * unit(dtype), dtype,
                     "(|gate_fine fine_out| + |gate_coarse coarse_out|)");
}

CombineTolerance combine_backward_tolerance(const TestTensor& fine_out,
                                            const TestTensor& coarse_out, const Gate& gate_coarse,
                                            const Gate& gate_fine, const TilePlan& q_plan,
                                            const TestTensor& dout) {
  const DType dtype = fine_out.dtype();
  const TestTensor coarse_gate = abs_gate(gate_coarse, fine_out);
  const TestTensor fine_gate = abs_gate(gate_fine, fine_out);
  const CombineGradients magnitude = run_combine_backward(
      kReference, fine_out.abs(), coarse_out.abs(), Gate::tensor(coarse_gate.view()),
      Gate::tensor(fine_gate.view()), q_plan, dout.abs());
  const double product = eps(dtype) / 2.0 + unit(dtype);
  const double terms = static_cast<double>(q_plan.tile_tokens());
  return {.dfine_out = relative_to(magnitude.dfine_out, product, dtype, "|gate_fine dout|"),
          .dcoarse_out =
              relative_to(magnitude.dcoarse_out, eps(tile_dtype(dtype)) + terms * unit(dtype),
                          tile_dtype(dtype), "sum |gate_coarse dout|"),
          .dgate_coarse = relative_to(magnitude.dgate_coarse, product, dtype, "|coarse_out dout|"),
          .dgate_fine = relative_to(magnitude.dgate_fine, product, dtype, "|fine_out dout|")};
}

Tolerance attention_score_tolerance(const Qkv& in) {
  const TestTensor q = run_pool(kReference, in.q.abs(), in.q_plan);
  const TestTensor k = run_pool(kReference, in.k.abs(), in.kv_plan);
  const TestTensor magnitude = run_coarse(kReference, q, k, k, in.kv_plan, in.scale).scores;
  // Each operand is a mean over up to tile_tokens tokens.
  const double roundings = static_cast<double>(in.q.dims().head_dim + in.q_plan.tile_tokens() +
                                               in.kv_plan.tile_tokens());
  return relative_to(magnitude, unit(in.q.dtype()) * (roundings + 8.0), DType::kF32,
                     "scale sum_d mean |q_d| mean |k_d|");
}

double attention_relative_error(const Qkv& in) {
  // Three roundings to the dtype: softmax weights, fine_out, out.
  return 1.5 * eps(in.q.dtype()) + unit(in.q.dtype()) * attention_error(in);
}

Tolerance attention_tolerance(const Qkv& in, const AttentionOptions& options, const ConstLut& lut) {
  const DType dtype = in.q.dtype();
  const TestTensor fine_gate = abs_gate(options.gate_fine, in.q);
  const TestTensor coarse_gate = abs_gate(options.gate_coarse, in.q);
  const TestTensor magnitude =
      run_combine(kReference, run_fine(kReference, with_abs_v(in), lut).out, coarse_magnitude(in),
                  Gate::tensor(coarse_gate.view()), Gate::tensor(fine_gate.view()), in.q_plan);
  return relative_to(magnitude, attention_relative_error(in), dtype,
                     "(|gate_fine| sum_j p_j |v_j| + |gate_coarse| sum_j p_j mean |v_j|)");
}

AttentionTolerance attention_backward_tolerance(const Qkv& in, const AttentionOptions& options,
                                                const AttentionResult& forward,
                                                const TestTensor& dout) {
  const DType dtype = in.q.dtype();
  const TestTensor dfine = product(abs_gate(options.gate_fine, in.q), dout.abs());
  const Gradients fine =
      gradient_magnitudes(in, forward.lut.view(), {forward.fine_out, forward.lse}, dfine);

  const Qkv pooled = pooled_f64(in);
  const TestTensor coarse_gate = abs_gate(options.gate_coarse, in.q);
  const TestTensor coarse_out = coarse_magnitude(in);
  const CombineGradients combine =
      run_combine_backward(kReference, forward.fine_out.abs(), coarse_out,
                           Gate::tensor(coarse_gate.view()), Gate::one(), in.q_plan, dout.abs());
  const Qkv tiles = rows_as_tiles(pooled);
  const LutBuffer all = all_tiles(tiles);
  const Gradients coarse = gradient_magnitudes(
      tiles, all.view(), run_fine(kReference, tiles, all.view()), combine.dcoarse_out);

  const auto both = [](const TestTensor& through_fine, const TestTensor& dpooled,
                       const TilePlan& plan) {
    return sum(through_fine, run_pool_backward(kReference, dpooled, plan, DType::kF64));
  };
  const Gradients magnitude{.dq = both(fine.dq, coarse.dq, in.q_plan),
                            .dk = both(fine.dk, coarse.dk, in.kv_plan),
                            .dv = both(fine.dv, coarse.dv, in.kv_plan)};
  // Six roundings to dtype: dfine_out, softmax weights, ds, the gradient through each branch, the
  // sum of both.
  const double relative =
      3.0 * eps(dtype) + unit(dtype) * (attention_error(in) + gradient_error(in));
  const GradientTolerance qkv = fine_gradient_tolerance(magnitude, relative, in);
  return {.dq = qkv.dq,
          .dk = qkv.dk,
          .dv = qkv.dv,
          .dgate_coarse = relative_to(combine.dgate_coarse,
                                      eps(dtype) / 2.0 + unit(dtype) * attention_error(in), dtype,
                                      "sum_j p_j mean |v_j| |dout|"),
          .dgate_fine = relative_to(combine.dgate_fine, eps(dtype) / 2.0 + unit(dtype), dtype,
                                    "|fine_out dout|")};
}

}  // namespace vsa::test
