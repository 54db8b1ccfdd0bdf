// The sums inside every stage with each term taken absolute: what rounding errors are relative to.
#pragma once

#include "tests/support/run.h"

namespace vsa::test {

/// The softmax scale that `in` runs with.
double scale_of(const Qkv& in);

/// The same attention over |v|, in f64: its output is sum_j p_j |v_j|.
Qkv with_abs_v(const Qkv& in);

/// |gate| as f64, for token tensors like x.
TestTensor abs_gate(const Gate& gate, const TestTensor& x);

/// Coarse attention as token attention where every pooled row is a tile of its own, in f64.
Qkv rows_as_tiles(const Qkv& pooled);

/// A table where every query tile of `in` keeps every kv tile.
LutBuffer all_tiles(const Qkv& in);

/// The gradients of the fine stage with every term taken absolute:
///   dv_j = sum_i p_ij |dout_i|      ds_ij = p_ij (|dout_i| . |v_j| + |dout_i| . |out_i|)
///   dq_i = scale sum_j ds_ij |k_j|  dk_j = scale sum_i ds_ij |q_i|
Gradients gradient_magnitudes(const Qkv& in, const ConstLut& lut, const FineResult& forward,
                              const TestTensor& dout);

/// The pooled q, k and v of the reference, in f64.
Qkv pooled_f64(const Qkv& in);

/// sum_j p_j mean |v_j| of the coarse branch, in f64.
TestTensor coarse_magnitude(const Qkv& in);

/// Elementwise, in f64.
TestTensor product(const TestTensor& a, const TestTensor& b);
TestTensor sum(const TestTensor& a, const TestTensor& b);

}  // namespace vsa::test
