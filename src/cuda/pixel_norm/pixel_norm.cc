// The stage pixel_norm: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/pixel_norm/pixel_norm.h"

#include <fmt/format.h>

#include "src/cuda/stages.h"
#include "src/cuda/support/call.h"

namespace vsa::cuda {

PixelSplit pixel_split(int64_t channels) {
  constexpr int64_t kFewPieces = 3;
  const int64_t pieces = (channels + kChannelPiece - 1) / kChannelPiece;
  PixelSplit split;
  while (split.lanes < 32 && pieces > kFewPieces * split.lanes) split.lanes *= 2;
  split.pieces = narrow((pieces + split.lanes - 1) / split.lanes);
  return split;
}

Status pixel_norm(const Context& context, const PixelNormArgs& args) {
  const Call call("pixel_norm", context);
  const auto& [batch, frames, pixels, channels] = args.y.shape;
  if (channels > kMaxChannels) {
    return unsupported(
        fmt::format("[{}] y: expected at most {} channels on the cuda backend, got {}; the cpu "
                    "backend takes any number",
                    call.operation(), kMaxChannels, channels));
  }
  if (pixels > INT32_MAX) {
    return unsupported(
        fmt::format("[{}] y: expected at most {} positions on the cuda backend, got "
                    "{}",
                    call.operation(), INT32_MAX, pixels));
  }
  return call.run(args, [&](const CallSite& at) {
    return run_pixel_norm(at,
                          {.y = rows_of(args.y),
                           .x = rows_of(args.x),
                           .out = rows_of(args.out),
                           .bias = static_cast<const float*>(args.bias.data),
                           .gamma = static_cast<const float*>(args.gamma.data),
                           .channels = narrow(args.y.shape[3]),
                           .channels_out = narrow(args.out.shape[3]),
                           .num_pixels = narrow(args.y.shape[2]),
                           .lanes = pixel_split(args.y.shape[3]).lanes,
                           .adds = !args.x.empty() && args.residual == Residual::kAdd,
                           .silu = args.activation == Activation::kSilu,
                           .out_is_f32 = args.out.dtype == DType::kF32},
                          args.y.dtype, args.y.shape);
  });
}

}  // namespace vsa::cuda
