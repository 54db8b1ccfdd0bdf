// The stage softmax: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/softmax/softmax.h"

#include "src/cuda/stages.h"
#include "src/cuda/support/call.h"

namespace vsa::cuda {

Status softmax(const Context& context, const SoftmaxArgs& args) {
  const Call call("softmax", context);
  return call.run(args, [&](const CallSite& at) {
    return run_softmax(at,
                       {.x = rows_of(args.x),
                        .out = rows_of(args.out),
                        .scale = args.scale,
                        .columns = args.columns,
                        .width = args.x.shape[3]},
                       args.out.dtype, args.x.shape);
  });
}

}  // namespace vsa::cuda
