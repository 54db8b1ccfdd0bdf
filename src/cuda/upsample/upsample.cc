// The stage upsample: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/upsample/upsample.h"

#include <fmt/format.h>

#include "src/cuda/stages.h"
#include "src/cuda/support/call.h"

namespace vsa::cuda {

Status upsample(const Context& context, const UpsampleArgs& args) {
  const Call call("upsample", context);
  const auto& [one, frames, pixels, channels] = args.x.shape;
  if (pixels > INT32_MAX / channels) {
    return unsupported(
        fmt::format("[{}] x: expected frames of at most {} elements on the cuda backend, got {} "
                    "pixels of {}",
                    call.operation(), INT32_MAX, pixels, channels));
  }
  return call.run(args, [&](const CallSite& at) {
    return run_upsample(at,
                        {.x = args.x.data,
                         .out = args.out.data,
                         .bias = static_cast<const float*>(args.bias.data),
                         .height = narrow(args.height),
                         .width = narrow(args.x.shape[2] / args.height),
                         .channels_in = narrow(args.x.shape[3]),
                         .channels = narrow(args.out.shape[3])},
                        args.x.dtype, args.x.shape[1]);
  });
}

}  // namespace vsa::cuda
