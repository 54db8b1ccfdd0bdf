// The stages combine and combine_backward: from their arguments to the launch of their kernels.
// Host-only.
#include "src/cuda/combine/combine.h"

#include "src/cuda/combine/combine_backward.h"
#include "src/cuda/stages.h"

namespace vsa::cuda {

CombineParams combine_params(const CombineArgs& args, const PlanTable& plan) {
  const ConstTensor& coarse_out = args.coarse_out;
  // A gate of 0 removes its branch, including any NaN in it.
  const bool has_fine = !args.gate_fine.is_zero();
  const bool has_coarse = !args.gate_coarse.is_zero();
  return {.fine_out = has_fine ? rows_of(args.fine_out) : ConstRows{},
          .coarse_out = has_coarse ? static_cast<const float*>(coarse_out.data) : nullptr,
          .coarse_batch = coarse_out.stride[0],
          .coarse_head = coarse_out.stride[1],
          .coarse_seq = coarse_out.stride[2],
          .gate_fine = gate_rows(args.gate_fine),
          .gate_coarse = gate_rows(args.gate_coarse),
          .plan = plan,
          .out = rows_of(args.out),
          .num_heads = narrow(args.out.shape[1]),
          .head_dim = narrow(args.out.shape[3])};
}

CombineBackwardParams combine_backward_params(const CombineBackwardArgs& args,
                                              const PlanTable& plan) {
  return {.dout = rows_of(args.dout),
          .fine_out = rows_of(args.fine_out),
          .coarse_out = rows_of(args.coarse_out),
          .gate_fine = gate_rows(args.gate_fine),
          .gate_coarse = gate_rows(args.gate_coarse),
          .plan = plan,
          .dfine_out = rows_of(args.dfine_out),
          .dgate_fine = rows_of(args.dgate_fine),
          .dgate_coarse = rows_of(args.dgate_coarse),
          .dcoarse_out = rows_of(args.dcoarse_out),
          .num_heads = narrow(args.dout.shape[1]),
          .head_dim = narrow(args.dout.shape[3])};
}

Status combine(const Context& context, const CombineArgs& args) {
  Call call("combine", context);
  const PlanTables plans(call.operation(), call.workspace, args.q_plan);
  return run(call, plans, args, [&](const CallSite& at) {
    return run_combine(at, combine_params(args, plans.q()), args.out.dtype, args.out.shape[0]);
  });
}

Status combine_backward(const Context& context, const CombineBackwardArgs& args) {
  Call call("combine_backward", context);
  const PlanTables plans(call.operation(), call.workspace, args.q_plan);
  return run(call, plans, args, [&](const CallSite& at) {
    return run_combine_backward(at, combine_backward_params(args, plans.q()), args.dout.dtype,
                                args.dout.shape[0]);
  });
}

}  // namespace vsa::cuda
