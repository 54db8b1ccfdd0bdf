// Runs stages of the public API on test tensors: allocates the outputs, throws vsa::Error if the
// call fails, and fails the test if a guard band was written.
//
// Outputs take the memory order of the first input, and the dtype of the inputs, f32 where stages.h
// says f32 (f64 if the inputs are f64).
#pragma once

#include "tests/support/test_tensor.h"
#include "vsa/attention.h"

namespace vsa::test {

/// The dtype of tile tensors and lse beside token tensors of that dtype.
DType tile_dtype(DType token_dtype);

/// What a call with scale {} must use: 1 / sqrt(head_dim), as float.
float default_scale(int64_t head_dim);

/// The three inputs of an attention and how they are cut into tiles.
struct Qkv {
  TestTensor q, k, v;
  TilePlan q_plan, kv_plan;
  std::optional<float> scale = {};
  int64_t last_key_repeats = 0;  // of FineArgs
};
/// The same values as f64: what the reference runs on to say what is right.
Qkv as_f64(const Qkv& in);

TestTensor run_tile(const Context& context, const TestTensor& x, const TilePlan& plan);
TestTensor run_untile(const Context& context, const TestTensor& tiled, const TilePlan& plan);
TestTensor run_pool(const Context& context, const TestTensor& x, const TilePlan& plan);
/// dx of that dtype.
TestTensor run_pool_backward(const Context& context, const TestTensor& dpooled,
                             const TilePlan& plan, DType dtype);

struct CoarseResult {
  TestTensor scores, out;
};
CoarseResult run_coarse(const Context& context, const TestTensor& q_pooled,
                        const TestTensor& k_pooled, const TestTensor& v_pooled,
                        const TilePlan& kv_plan, std::optional<float> scale = {},
                        CoarseRounding rounding = CoarseRounding::kNone);

LutBuffer run_select(const Context& context, const TestTensor& scores,
                     const SelectOptions& options);

struct Gradients {
  TestTensor dq, dk, dv;
};
Gradients run_coarse_backward(const Context& context, const Qkv& pooled,
                              const TestTensor& dcoarse_out);

struct FineResult {
  TestTensor out, lse;
};
FineResult run_fine(const Context& context, const Qkv& in, const ConstLut& lut);
Gradients run_fine_backward(const Context& context, const Qkv& in, const ConstLut& lut,
                            const FineResult& forward, const TestTensor& dout);

TestTensor run_combine(const Context& context, const TestTensor& fine_out,
                       const TestTensor& coarse_out, const Gate& gate_coarse, const Gate& gate_fine,
                       const TilePlan& q_plan);

struct CombineGradients {
  TestTensor dfine_out, dcoarse_out, dgate_coarse, dgate_fine;
};
CombineGradients run_combine_backward(const Context& context, const TestTensor& fine_out,
                                      const TestTensor& coarse_out, const Gate& gate_coarse,
                                      const Gate& gate_fine, const TilePlan& q_plan,
                                      const TestTensor& dout);

/// The gates and the selection of the whole operator.
struct AttentionOptions {
  Gate gate_coarse = Gate::one();
  Gate gate_fine = Gate::one();
  SelectOptions select = {};  ///< used if `lut` is empty
  ConstLut lut = {};
  CoarseRounding rounding = CoarseRounding::kNone;
  ConstTensor q_pooled = {}, k_pooled = {}, v_pooled = {}, coarse_out = {};  ///< existing already
};

struct AttentionResult {
  TestTensor out, lse, fine_out;
  LutBuffer lut;
};
AttentionResult run_attention(const Context& context, const Qkv& in,
                              const AttentionOptions& options);

struct AttentionGradients {
  TestTensor dq, dk, dv, dgate_coarse, dgate_fine;
};
AttentionGradients run_attention_backward(const Context& context, const Qkv& in,
                                          const AttentionOptions& options,
                                          const AttentionResult& forward, const TestTensor& dout);

/// A table where every query tile keeps every kv tile.
LutBuffer full_lut(int64_t batch, int64_t num_heads, int64_t num_q_tiles, int64_t num_kv_tiles);

/// A table with the given rows, the same for every batch item and head.
LutBuffer lut_of_rows(int64_t batch, int64_t num_heads,
                      const std::vector<std::vector<int32_t>>& rows);

}  // namespace vsa::test
