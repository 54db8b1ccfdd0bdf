// The stages on the GPU, from and to host tensors: what tests/support/run.h does for other
// backends.
#pragma once

#include "tests/gpu/device.h"
#include "tests/support/run.h"

namespace vsa::test::gpu {

TestTensor run_tile(const TestTensor& x, const TilePlan& plan);
TestTensor run_untile(const TestTensor& tiled, const TilePlan& plan);
TestTensor run_pool(const TestTensor& x, const TilePlan& plan);
CoarseResult run_coarse(const Qkv& pooled, CoarseRounding rounding = CoarseRounding::kNone);
LutBuffer run_select(const TestTensor& scores, const SelectOptions& options);
FineResult run_fine(const Qkv& in, const ConstLut& lut);
TestTensor run_combine(const TestTensor& fine_out, const TestTensor& coarse_out,
                       const Gate& gate_coarse, const Gate& gate_fine, const TilePlan& q_plan);

/// Which optional outputs the operator is asked for.
enum class Outputs {
  kAll,      ///< lse, fine_out, lut: combine runs on its own
  kOutOnly,  ///< out and the lut: combine runs in the fine kernel
};
AttentionResult run_attention(const Qkv& in, const AttentionOptions& options, Outputs outputs);

TestTensor run_pool_backward(const TestTensor& dpooled, const TilePlan& plan, DType dtype);
Gradients run_coarse_backward(const Qkv& pooled, const TestTensor& dcoarse_out);
Gradients run_fine_backward(const Qkv& in, const ConstLut& lut, const FineResult& forward,
                            const TestTensor& dout);
CombineGradients run_combine_backward(const TestTensor& fine_out, const TestTensor& coarse_out,
                                      const Gate& gate_coarse, const Gate& gate_fine,
                                      const TilePlan& q_plan, const TestTensor& dout);
/// forward.lut is the table.
AttentionGradients run_attention_backward(const Qkv& in, const AttentionOptions& options,
                                          const AttentionResult& forward, const TestTensor& dout);

}  // namespace vsa::test::gpu
