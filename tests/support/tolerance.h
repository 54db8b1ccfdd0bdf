// Tolerances of every stage, derived from the number of roundings and the size of what is summed.
// docs/reference/numerics.md explains each constant; nothing here is tuned.
//
// All take the very inputs of the stage (in the dtype under test) and give one bound per element of
// the stage's output.
#pragma once

#include "tests/support/compare.h"
#include "tests/support/run.h"

namespace vsa::test {

/// Distance of 1 to the next number: 2^-7 for bf16, 2^-10 for f16, 2^-23 for f32, 2^-52 for f64.
double eps(DType dtype);

Tolerance pool_tolerance(const TestTensor& x, const TilePlan& plan);
Tolerance pool_backward_tolerance(const TestTensor& dpooled, const TilePlan& plan, DType dtype);

struct CoarseTolerance {
  Tolerance scores, out;
};
CoarseTolerance coarse_tolerance(const Qkv& pooled);
/// Bounds for coarse_out under CoarseRounding::kBf16 where the scores are the same: a probability
/// near the border between two bf16 may fall to the other side, and then out.
Tolerance rounded_coarse_out_tolerance(const Qkv& pooled);

struct GradientTolerance {
  Tolerance dq, dk, dv;
};
GradientTolerance coarse_backward_tolerance(const Qkv& pooled, const TestTensor& dcoarse_out);

struct FineTolerance {
  Tolerance out, lse;
};
FineTolerance fine_tolerance(const Qkv& in, const ConstLut& lut);
GradientTolerance fine_backward_tolerance(const Qkv& in, const ConstLut& lut,
                                          const FineResult& forward, const TestTensor& dout);

Tolerance combine_tolerance(const TestTensor& fine_out, const TestTensor& coarse_out,
                            const Gate& gate_coarse, const Gate& gate_fine, const TilePlan& q_plan);

struct CombineTolerance {
  Tolerance dfine_out, dcoarse_out, dgate_coarse, dgate_fine;
};
CombineTolerance combine_backward_tolerance(const TestTensor& fine_out,
                                            const TestTensor& coarse_out, const Gate& gate_coarse,
                                            const Gate& gate_fine, const TilePlan& q_plan,
                                            const TestTensor& dout);

/// Bounds for the scores that the whole operator selects by, pooling included.
Tolerance attention_score_tolerance(const Qkv& in);
/// What attention_tolerance multiplies magnitudes by: roundings to the dtype and fp32 errors.
double attention_relative_error(const Qkv& in);
/// Bounds for `out` of the whole operator.
Tolerance attention_tolerance(const Qkv& in, const AttentionOptions& options, const ConstLut& lut);
/// Bounds for all gradients of the whole operator; `forward` is what backward was given.
struct AttentionTolerance {
  Tolerance dq, dk, dv, dgate_coarse, dgate_fine;
};
AttentionTolerance attention_backward_tolerance(const Qkv& in, const AttentionOptions& options,
                                                const AttentionResult& forward,
                                                const TestTensor& dout);

}  // namespace vsa::test
