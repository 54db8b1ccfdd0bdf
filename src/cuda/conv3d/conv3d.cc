// The stage conv3d: one convolution of cuDNN. Host-only.
#include "src/cuda/stages.h"
#include "src/cuda/support/libraries.h"
#include "src/cuda/traits.h"
#ifdef VSA_HAS_CUDNN
#include "src/cuda/conv3d/engines.h"
#include "src/cuda/support/call.h"
#endif

namespace vsa::cuda {

#ifdef VSA_HAS_CUDNN

Status conv3d(const Context& context, const Conv3dArgs& args) {
  Call call("conv3d", context);
  VSA_TRY(cudnn().status());
  void* const workspace = call.workspace.take<uint8_t>(kConvolutionWorkspaceBytes);
  return call.run(args, [&](const CallSite& at) {
    return enqueue_convolution(
        at,
        {.frames = args.x.shape[1],
         .height = args.height,
         .width = args.x.shape[2] / args.height,
         .c_in = args.x.shape[3],
         .c_out = args.out.shape[3],
         .kernel_frames = args.kernel_frames,
         .kernel_edge = args.kernel_edge,
         .type = args.x.dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF},
        {.x = args.x.data,
         .weight = args.weight.data,
         .out = args.out.data,
         .workspace = workspace});
  });
}

#else

Status conv3d(const Context& /*context*/, const Conv3dArgs& /*args*/) {
  return library(kCudnnName).status();
}

#endif

}  // namespace vsa::cuda
