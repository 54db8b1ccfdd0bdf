// The relative_attention kernel and its parameters. Host-only.
#pragma once

#include <array>

#include "src/cuda/support/launch.h"
#include "src/cuda/support/rows.h"
#include "vsa/relative_attention.h"

namespace vsa::cuda {

struct RelativeAttentionParams {
  ConstRows q, k, v;  // the token dtype
  ConstRows bias;     // f32, of one row for each head
  Rows out;
  float scale = 1.0F;
  int32_t num_queries = 0, num_keys = 0;
  int32_t group_size = 1;  // query heads that share a kv head
  int32_t head_dim = 0;    // a multiple of 8 up to 128
};
/// Enqueues the kernel.
/// @param dtype  bf16 or f16
/// @param shape  of q
Status run_relative_attention(const CallSite& at, const RelativeAttentionParams& params,
                              DType dtype, const std::array<int64_t, 4>& shape);

}  // namespace vsa::cuda
