// Validation of the calls on videos, [1, F, height * width, C]: conv3d, pixel_norm, upsample; and
// of softmax. Host-only.
#include <fmt/format.h>

#include "src/core/check_args.h"

namespace vsa {
namespace {

Status multiple_of_step(const ArgCheck& check, std::string_view argument, int64_t channels) {
  if (channels % kRowStep == 0) return {};
  return check.fault(argument, fmt::format("its last axis to be a multiple of {}", kRowStep),
                     std::to_string(channels));
}

Status contiguous(const ArgCheck& check, std::string_view argument, const ConstTensor& t) {
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 0;) {
    if (t.shape[axis] != 1 && t.stride[axis] != stride) {
      return check.fault(argument, "contiguous memory [B,H,S,D]",
                         fmt::format("stride {} on axis {}, not {}", t.stride[axis], axis, stride));
    }
    stride *= t.shape[axis];
  }
  return {};
}

Status height_divides(const ArgCheck& check, int64_t height, int64_t pixels) {
  if (height >= 1 && pixels % height == 0) return {};
  return check.fault("height", fmt::format("a number of rows that divides {}", pixels),
                     std::to_string(height));
}

Status between(const ArgCheck& check, std::string_view argument, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return {};
  return check.fault(argument, fmt::format("1 to {}", most), std::to_string(value));
}

/// An f32 vector with a number for each channel, which kernels read as vectors.
Status per_channel(ArgCheck& check, std::string_view argument, const ConstTensor& t,
                   int64_t channels) {
  if (t.empty()) return {};
  VSA_TRY(check.input(argument, t, check.tile_dtypes(), {1, 1, 1, channels}));
  return check.aligned_rows(argument, t);
}

}  // namespace

Status check_args(ArgCheck& check, const Conv3dArgs& args) {
  const Shape& x = args.x.shape;
  VSA_TRY(check.input("x", args.x, check.token_dtypes(), {1, kAnyExtent, kAnyExtent, kAnyExtent}));
  VSA_TRY(multiple_of_step(check, "x", x[3]));
  VSA_TRY(contiguous(check, "x", args.x));
  VSA_TRY(height_divides(check, args.height, x[2]));
  VSA_TRY(between(check, "kernel_frames", args.kernel_frames, x[1]));
  constexpr int64_t kLargest = 31;  // so that the number of taps stays small
  VSA_TRY(between(check, "kernel_edge", args.kernel_edge, kLargest));
  if (args.kernel_edge % 2 == 0) {
    return check.fault("kernel_edge", "an odd number", std::to_string(args.kernel_edge));
  }
  const Shape weight{1, kAnyExtent, args.kernel_frames * args.kernel_edge * args.kernel_edge, x[3]};
  VSA_TRY(check.input("weight", args.weight, args.x.dtype, weight));
  VSA_TRY(contiguous(check, "weight", args.weight));
  const Shape out{1, x[1] - args.kernel_frames + 1, x[2], args.weight.shape[1]};
  VSA_TRY(check.output("out", args.out, args.x.dtype, out));
  VSA_TRY(multiple_of_step(check, "out", out[3]));
  return contiguous(check, "out", args.out);
}

Status check_args(ArgCheck& check, const PixelNormArgs& args) {
  const Shape any{kAnyExtent, kAnyExtent, kAnyExtent, kAnyExtent};
  VSA_TRY(check.input("y", args.y, check.token_dtypes(), any));
  const Shape& y = args.y.shape;
  VSA_TRY(multiple_of_step(check, "y", y[3]));
  VSA_TRY(per_channel(check, "bias", args.bias, y[3]));
  VSA_TRY(check.optional_output("x", args.x, args.y.dtype, y));
  if (args.residual != Residual::kAdd && args.residual != Residual::kReplace) {
    return check.fault("residual", "kAdd or kReplace",
                       std::to_string(static_cast<int>(args.residual)));
  }
  if (args.activation != Activation::kNone && args.activation != Activation::kSilu) {
    return check.fault("activation", "kNone or kSilu",
                       std::to_string(static_cast<int>(args.activation)));
  }
  if (args.out.empty()) {
    if (args.x.empty()) return check.fault("out", "a tensor, as there is no x", "none");
    if (!args.gamma.empty()) return check.fault("gamma", "none without out", "a tensor");
    if (args.activation != Activation::kNone) {
      return check.fault("activation", "kNone without out", "kSilu");
    }
    return {};
  }
  VSA_TRY(per_channel(check, "gamma", args.gamma, y[3]));
  const bool may_drop = args.gamma.empty() && args.out.shape[3] < y[3];
  const Shape out{y[0], y[1], y[2], may_drop ? args.out.shape[3] : y[3]};
  return check.output("out", args.out, {args.y.dtype, DType::kF32}, out);
}

Status check_args(ArgCheck& check, const UpsampleArgs& args) {
  const Shape& x = args.x.shape;
  VSA_TRY(check.input("x", args.x, check.token_dtypes(), {1, kAnyExtent, kAnyExtent, kAnyExtent}));
  VSA_TRY(contiguous(check, "x", args.x));
  VSA_TRY(per_channel(check, "bias", args.bias, x[3]));
  VSA_TRY(height_divides(check, args.height, x[2]));
  VSA_TRY(between(check, "frames_each", args.frames_each, 2));
  if (x[3] % (kRowStep * args.frames_each) != 0) {
    return check.fault("x",
                       fmt::format("its last axis to be {} parts, each a multiple of {}",
                                   args.frames_each, kRowStep),
                       std::to_string(x[3]));
  }
  int64_t pixels = 0;
  if (__builtin_mul_overflow(x[2], int64_t{4}, &pixels)) {
    return check.fault("x", "fewer pixels", std::to_string(x[2]));
  }
  const Shape out{1, args.frames_each * x[1], pixels, x[3] / args.frames_each};
  VSA_TRY(check.output("out", args.out, args.x.dtype, out));
  return contiguous(check, "out", args.out);
}

Status check_args(ArgCheck& check, const SoftmaxArgs& args) {
  const Shape any{kAnyExtent, kAnyExtent, kAnyExtent, kAnyExtent};
  VSA_TRY(check.input("x", args.x, check.tile_dtypes(), any));
  const Shape& x = args.x.shape;
  VSA_TRY(multiple_of_step(check, "x", x[3]));
  VSA_TRY(check.aligned_rows("x", args.x));
  VSA_TRY(check.scale(args.scale));
  VSA_TRY(between(check, "columns", args.columns, x[3]));
  VSA_TRY(check.output("out", args.out, check.token_or_tile_dtypes(), x));
  return check.aligned_rows("out", args.out);
}

}  // namespace vsa
