// Distances between what a contestant computed and what the reference did. Host-only.
#pragma once

#include <initializer_list>
#include <vector>

#include "cli/bench/check.h"
#include "cli/common/cost.h"
#include "cli/common/sampled_tiles.h"

namespace vsa::cli {

inline constexpr Context kReference{.backend = BackendId::kReference};

/// |got - want| / max(|want|, least) over all elements; NaN if any value is NaN, infinite if both
/// are 0 and got is not want.
double relative_l2(const ConstTensor& got, const ConstTensor& want, double least = 0.0);

/// |x| over all elements.
double l2(const ConstTensor& x);

/// A tensor like `x`, to be written by the reference.
OwnedTensor like(const ConstTensor& x);

/// Replaces the tensors of a call by others, and owns the memory of those that it makes.
class Replacements {
 public:
  /// `x` becomes its tokens in the sampled tiles of `plan`.
  void gather(std::initializer_list<ConstTensor*> tensors, const TilePlan& plan,
              const SampledTiles& sample);
  /// `x` becomes a tensor like it, to be written by the reference; an empty one stays empty.
  void renew(std::initializer_list<Tensor*> tensors);
  /// The same, like another tensor.
  void renew_like(const ConstTensor& model, std::initializer_list<Tensor*> tensors);

 private:
  std::vector<OwnedTensor> made_;  // their memory stays where it is when the vector grows
};

/// Query tiles to sample so that the reference spends about 5 GFLOP on them; at least 2.
SampledTiles affordable_tiles(const BenchProblem& problem, const ConstLut& lut);

/// The worst of several errors; NaN if any is NaN.
double worst(std::initializer_list<double> errors);

}  // namespace vsa::cli
