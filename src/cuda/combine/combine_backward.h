// The combine_backward kernel, which also computes delta, and its parameters. Host-only.
#pragma once

#include "src/cuda/combine/combine.h"

namespace vsa::cuda {

/// Outputs (below `plan`) whose data is null are not computed.
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
/// Enqueues the kernel. Padding rows of the outputs become 0.
Status run_combine_backward(const CallSite& at, const CombineBackwardParams& params, DType dtype,
                            int64_t batch);

CombineBackwardParams combine_backward_params(const CombineBackwardArgs& args,
                                              const PlanTable& plan);

}  // namespace vsa::cuda
