// What norm_rope_pool must give, for any backend.
#pragma once

#include <functional>

#include "tests/support/run.h"
#include "vsa/norm_rope_pool.h"

namespace vsa::test {

/// What a call is given beside x.
struct NormRopePoolExtras {
  NormOver norm;
  bool weight, rstd, angles, pooled;
};

/// The tensors of a call: x and pooled are written, the others are f32 (or f64) inputs. Tensors
/// that the extras leave out exist, but are not part of `args`.
struct NormRopePoolTensors {
  TestTensor x, pooled, weight, rstd, cos, sin;
  NormRopePoolArgs args(const TilePlan& plan, const NormRopePoolExtras& extras);
};
NormRopePoolTensors norm_rope_pool_tensors(const TestTensor& x, const TilePlan& plan,
                                           NormOver norm);

/// Runs the call and leaves its results in x and pooled.
using RunNormRopePool = std::function<void(NormRopePoolTensors&)>;

/// Compares with the reference in fp64, within derived bounds; positions of no tile must stay.
void expect_norm_rope_pool(const TestTensor& x, const TilePlan& plan,
                           const NormRopePoolExtras& extras, const RunNormRopePool& run);

/// Every norm, with everything else given and with parts left out.
std::vector<NormRopePoolExtras> norm_rope_pool_extras();

}  // namespace vsa::test
