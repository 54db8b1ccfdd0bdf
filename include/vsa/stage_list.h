// The calls that a backend may have, and their arguments. Tables, declarations, dispatch,
// validation, `implements`, the C ABI and whatever treats all arguments of a call alike, such as
// copies to a device, are made from this list. Host-only.
#pragma once

#include "vsa/attention.h"
#include "vsa/conv3d.h"
#include "vsa/linear.h"
#include "vsa/norm_rope_pool.h"
#include "vsa/pixel_norm.h"
#include "vsa/relative_attention.h"
#include "vsa/residual_norm.h"
#include "vsa/softmax.h"
#include "vsa/upsample.h"

/// Calls X(name, type of the arguments, fields) for each; `fields` is F(field) for each of them, in
/// the order in which they are looked at. Who uses them defines F.
// clang-format off
#define VSA_FOR_EACH_STAGE(X)                                                                    \
  X(tile, TileArgs, F(x) F(plan) F(tiled))                                                       \
  X(untile, UntileArgs, F(tiled) F(plan) F(x))                                                   \
  X(pool, PoolArgs, F(x) F(plan) F(pooled))                                                      \
  X(pool_backward, PoolBackwardArgs, F(dpooled) F(plan) F(dx))                                   \
  X(norm_rope_pool, NormRopePoolArgs,                                                            \
    F(x) F(plan) F(norm) F(eps) F(weight) F(rstd) F(cos) F(sin) F(pooled))                       \
  X(linear, LinearArgs, F(x) F(weight) F(bias) F(activation) F(out))                             \
  X(residual_norm, ResidualNormArgs, F(x) F(y) F(gate) F(scale) F(shift) F(eps) F(norm) F(out))  \
  X(relative_attention, RelativeAttentionArgs,                                                   \
    F(q) F(k) F(v) F(bias) F(scale) F(out))                                                      \
  X(conv3d, Conv3dArgs,                                                                          \
    F(x) F(weight) F(height) F(kernel_frames) F(kernel_edge) F(out))                             \
  X(pixel_norm, PixelNormArgs,                                                                   \
    F(y) F(bias) F(x) F(residual) F(gamma) F(activation) F(out))                                 \
  X(upsample, UpsampleArgs, F(x) F(bias) F(height) F(frames_each) F(out))                        \
  X(softmax, SoftmaxArgs, F(x) F(scale) F(columns) F(out))                                       \
  X(coarse, CoarseArgs,                                                                          \
    F(q_pooled) F(k_pooled) F(v_pooled) F(kv_plan) F(scale) F(rounding) F(coarse_scores)         \
    F(coarse_out))                                                                               \
  X(coarse_backward, CoarseBackwardArgs,                                                         \
    F(q_pooled) F(k_pooled) F(v_pooled) F(kv_plan) F(scale) F(dcoarse_out) F(dq_pooled)          \
    F(dk_pooled) F(dv_pooled))                                                                   \
  X(select, SelectArgs, F(coarse_scores) F(options) F(lut))                                      \
  X(fine, FineArgs, F(q) F(k) F(v) F(q_plan) F(kv_plan) F(scale) F(out) F(lse) F(lut)            \
    F(last_key_repeats))                                                                         \
  X(fine_backward, FineBackwardArgs,                                                             \
    F(q) F(k) F(v) F(q_plan) F(kv_plan) F(scale) F(out) F(lse) F(dout) F(dq) F(dk) F(dv) F(lut)) \
  X(combine, CombineArgs,                                                                        \
    F(fine_out) F(coarse_out) F(gate_coarse) F(gate_fine) F(q_plan) F(out))                      \
  X(combine_backward, CombineBackwardArgs,                                                       \
    F(dout) F(fine_out) F(coarse_out) F(gate_coarse) F(gate_fine) F(q_plan) F(dfine_out)         \
    F(dcoarse_out) F(dgate_coarse) F(dgate_fine))                                                \
  X(attention_forward, AttentionArgs,                                                            \
    F(q) F(k) F(v) F(gate_coarse) F(gate_fine) F(q_plan) F(kv_plan) F(select) F(scale)           \
    F(rounding) F(q_pooled) F(k_pooled) F(v_pooled) F(coarse_out) F(out) F(lse) F(fine_out)      \
    F(lut) F(lut_out))                                                                           \
  X(attention_backward, AttentionBackwardArgs,                                                   \
    F(q) F(k) F(v) F(gate_coarse) F(gate_fine) F(q_plan) F(kv_plan) F(scale) F(lse) F(fine_out)  \
    F(dout) F(dq) F(dk) F(dv) F(dgate_coarse) F(dgate_fine) F(lut))
// clang-format on
