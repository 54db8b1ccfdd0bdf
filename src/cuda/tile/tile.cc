// The stages tile and untile: from their arguments to the launch of their kernels. Host-only.
#include "src/cuda/tile/tile.h"

#include "src/cuda/stages.h"

namespace vsa::cuda {
namespace {

ReorderParams reorder_params(const ConstTensor& from, const Tensor& to, const PlanTable& plan) {
  return {.from = rows_of(from),
          .to = rows_of(to),
          .plan = plan,
          .num_heads = narrow(from.shape[1]),
          .head_dim = narrow(from.shape[3])};
}

}  // namespace

Status tile(const Context& context, const TileArgs& args) {
  Call call("tile", context);
  const PlanTables plans(call.operation(), call.workspace, args.plan);
  return run(call, plans, args, [&](const CallSite& at) {
    return run_tile(at, reorder_params(args.x, args.tiled, plans.q()), args.x.shape[0]);
  });
}

Status untile(const Context& context, const UntileArgs& args) {
  Call call("untile", context);
  const PlanTables plans(call.operation(), call.workspace, args.plan);
  return run(call, plans, args, [&](const CallSite& at) {
    return run_untile(at, reorder_params(args.tiled, args.x, plans.q()), args.x.shape[0]);
  });
}

}  // namespace vsa::cuda
