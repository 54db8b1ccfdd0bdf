// A convolution over the frames, rows and columns of a video, channels last. Host-only.
#pragma once

#include <cstdint>

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// A video of F frames of S = height * width pixels is a tensor [1, F, S, C] in raster order.
///
///   out_f,r,c,n = sum_t,i,j,k x_f+t,r+i-e,c+j-e,k * weight_n,(t,i,j),k      e = kernel_edge / 2
///
/// Rows and columns outside a frame are zeros, so frames keep their size. Frames are not padded:
/// out has kernel_frames - 1 fewer, and a causal convolution has earlier frames or zeros in front
/// of x. Sums are f32 (reference: f64) and rounded to the dtype of out once. There is no bias: the
/// passes behind a convolution (pixel_norm.h, upsample.h) add it.
struct Conv3dArgs {
  ConstTensor x;       ///< [1, F, S, C_in] of a token dtype, contiguous
  ConstTensor weight;  ///< [1, C_out, kernel_frames * kernel_edge^2, C_in], contiguous, dtype of x
  int64_t height = 0;  ///< of a frame; divides S
  int64_t kernel_frames = 1;  ///< 1 to F
  int64_t kernel_edge = 1;    ///< rows and columns of the kernel; odd
  Tensor out;                 ///< [1, F - kernel_frames + 1, S, C_out], contiguous, dtype of x
};
/// C_in and C_out are multiples of 8.
/// @return InvalidArgument | Unsupported (dtype or alignment; cuda: no cuDNN, or none of its
/// engines takes the shape) | DeviceError
/// Cost: 2 C_in C_out kernel_frames kernel_edge^2 FLOP for each pixel of out. The cuda backend
/// computes it with cuDNN (vendor_library.h) and answers Unsupported without it; it takes 32 MiB of
/// workspace. The engine is the first that cuDNN's heuristics name, never chosen by timing: the
/// same bits in every run on one device and one version of cuDNN. Oracle: src/reference/conv3d.cc.
Status conv3d(const Context& context, const Conv3dArgs& args);

}  // namespace vsa
