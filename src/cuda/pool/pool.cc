// The stages pool and pool_backward: from their arguments to the launch of their kernels.
// Host-only.
#include "src/cuda/pool/pool.h"

#include "src/cuda/stages.h"

namespace vsa::cuda {

Status enqueue_pool_backward(const CallSite& at, const ConstTensor& dpooled, const PlanTable& plan,
                             const Tensor& dx) {
  return run_pool_backward(at,
                           {.dpooled = rows_of(dpooled),
                            .plan = plan,
                            .dx = rows_of(dx),
                            .num_heads = narrow(dx.shape[1]),
                            .head_dim = narrow(dx.shape[3])},
                           dx.dtype, dx.shape[0]);
}

Status pool(const Context& context, const PoolArgs& args) {
  Call call("pool", context);
  const PlanTables plans(call.operation(), call.workspace, args.plan);
  return run(call, plans, args, [&](const CallSite& at) {
    PoolParams params;
    params.add(args.x, plans.q(), args.pooled);
    return run_pool(at, params, args.x.dtype, args.x.shape[0]);
  });
}

Status pool_backward(const Context& context, const PoolBackwardArgs& args) {
  Call call("pool_backward", context);
  const PlanTables plans(call.operation(), call.workspace, args.plan);
  return run(call, plans, args, [&](const CallSite& at) {
    return enqueue_pool_backward(at, args.dpooled, plans.q(), args.dx);
  });
}

}  // namespace vsa::cuda
