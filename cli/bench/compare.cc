// Relative errors, and the tensors that the reference writes for them. Host-only.
#include "cli/bench/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "vsa/element.h"

namespace vsa::cli {

namespace {

/// Calls visit with the offset of each element in x and in `like_x`, a tensor of its shape.
template <class Visit>
void for_each_element(const ConstTensor& x, const ConstTensor& like_x, const Visit& visit) {
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t h = 0; h < x.shape[1]; ++h) {
      for (int64_t s = 0; s < x.shape[2]; ++s) {
        const int64_t i = b * x.stride[0] + h * x.stride[1] + s * x.stride[2];
        const int64_t j = b * like_x.stride[0] + h * like_x.stride[1] + s * like_x.stride[2];
        for (int64_t d = 0; d < x.shape[3]; ++d) visit(i + d, j + d);
      }
    }
  }
}

}  // namespace

double relative_l2(const ConstTensor& got, const ConstTensor& want, double least) {
  double error = 0.0;
  for_each_element(want, got, [&](int64_t w, int64_t g) {
    const double e = load_element(got.data, got.dtype, g) - load_element(want.data, want.dtype, w);
    error += e * e;
  });
  if (error == 0.0) return 0.0;
  return std::sqrt(error) / std::max(l2(want), least);
}

double l2(const ConstTensor& x) {
  double sum = 0.0;
  for_each_element(x, x, [&](int64_t i, int64_t) {
    const double value = load_element(x.data, x.dtype, i);
    sum += value * value;
  });
  return std::sqrt(sum);
}

OwnedTensor like(const ConstTensor& x) {
  return OwnedTensor(
      x.dtype,
      {.batch = x.shape[0], .num_heads = x.shape[1], .seq_len = x.shape[2], .head_dim = x.shape[3]},
      Layout::kBhsd);
}

void Replacements::gather(std::initializer_list<ConstTensor*> tensors, const TilePlan& plan,
                          const SampledTiles& sample) {
  for (ConstTensor* x : tensors) {
    *x = made_.emplace_back(gather_tokens(*x, plan, sample)).view();
  }
}

void Replacements::renew(std::initializer_list<Tensor*> tensors) {
  for (Tensor* x : tensors) {
    if (!x->empty()) renew_like(*x, {x});
  }
}

void Replacements::renew_like(const ConstTensor& model, std::initializer_list<Tensor*> tensors) {
  for (Tensor* x : tensors) *x = made_.emplace_back(like(model)).view();
}

SampledTiles affordable_tiles(const BenchProblem& problem, const ConstLut& lut) {
  constexpr double kBudget = 5e9;
  const auto num_tiles = static_cast<double>(problem.plan.num_tiles());
  const double flops_per_tile =
      pair_flops(kept_pairs(problem.plan, problem.plan, lut), problem.c.head_dim) / num_tiles;
  const double count = std::clamp(kBudget / flops_per_tile, 2.0, num_tiles);
  return sample_tiles(problem.plan, static_cast<int64_t>(count));
}

double worst(std::initializer_list<double> errors) {
  double largest = 0.0;
  for (const double error : errors) {
    if (std::isnan(error)) return error;
    largest = std::max(largest, error);
  }
  return largest;
}

double bench_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-6;  // eps 2^-7
    case DType::kF16:
      return 0x1p-9;  // eps 2^-10
    case DType::kF32:
      return 1e-5;
    case DType::kF64:
      return 1e-12;
  }
  return 0.0;
}

}  // namespace vsa::cli
