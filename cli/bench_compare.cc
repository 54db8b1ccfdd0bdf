#include "cli/bench_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vsa::cli {

double relative_l2(const ConstTensor& got, const ConstTensor& want) {
  double error = 0.0;
  double norm = 0.0;
  for (int64_t b = 0; b < want.shape[0]; ++b) {
    for (int64_t h = 0; h < want.shape[1]; ++h) {
      for (int64_t s = 0; s < want.shape[2]; ++s) {
        const int64_t g = b * got.stride[0] + h * got.stride[1] + s * got.stride[2];
        const int64_t w = b * want.stride[0] + h * want.stride[1] + s * want.stride[2];
        for (int64_t d = 0; d < want.shape[3]; ++d) {
          const double y = element(want.data, want.dtype, w + d);
          const double e = element(got.data, got.dtype, g + d) - y;
          error += e * e;
          norm += y * y;
        }
      }
    }
  }
  if (error == 0.0) return 0.0;
  return std::sqrt(error / norm);
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
