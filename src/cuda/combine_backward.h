// Entrance of the kernel that starts backward: gradients of combine, and delta. Host-only.
#pragma once

#include "src/cuda/combine.h"

namespace vsa::cuda {

/// Everything below `plan` may have null data: it is then left out.
struct CombineBackwardParams {
  ConstRows dout;
  ConstRows fine_out{};    // read for dgate_fine and delta
  ConstRows coarse_out{};  // f32 [B, H, Nq, D]; read for dgate_coarse
  GateRows gate_fine{}, gate_coarse{};
  PlanTable plan;
  Rows dfine_out{};     // gate_fine * dout
  Rows dgate_fine{};    // fine_out * dout
  Rows dgate_coarse{};  // coarse_out * dout
  Rows dcoarse_out{};   // f32 [B, H, Nq, D]: sum over the tile of gate_coarse * dout
  Rows delta{};  // f32 [B, H, Sq, 1]: sum over d of fine_out * (gate_fine * dout as it is stored)
  int32_t num_heads = 0;
  int32_t head_dim = 0;  // 64 or 128
};
/// One pass over the tokens; padding rows of the outputs become 0.
Status run_combine_backward(std::string_view operation, const CombineBackwardParams& params,
                            DType dtype, int64_t batch, cudaStream_t stream);

struct PoolBackwardParams {
  ConstRows dpooled;  // f32 [B, H, N, D]; null: zeros
  PlanTable plan;
  Rows dx;
  int32_t num_heads = 0;
  int32_t head_dim = 0;  // 64 or 128
};
/// dx = dpooled / tile_len; padding rows 0.
Status run_pool_backward(std::string_view operation, const PoolBackwardParams& params, DType dtype,
                         int64_t batch, cudaStream_t stream);

}  // namespace vsa::cuda
