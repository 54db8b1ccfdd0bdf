// Doubles the rows and columns of a video, and its frames where channels hold two. Host-only.
#pragma once

#include <cstdint>

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// Videos are tensors [1, F, height * width, channels], as those of conv3d:
///   out_(T f + t), r, c, k = x_f, r / 2, c / 2, (t C + k) + bias_(t C + k)
/// The T = frames_each parts of a pixel's channels are frames one behind the other, and every pixel
/// becomes four equal ones.
struct UpsampleArgs {
  ConstTensor x;            ///< [1, F, S, T * C] token tensor, contiguous
  ConstTensor bias{};       ///< [1, 1, 1, T * C] f32; empty: zeros
  int64_t height = 0;       ///< of a frame of x; divides S
  int64_t frames_each = 1;  ///< T: 1 or 2
  Tensor out;               ///< [1, T * F, 4 * S, C], contiguous, dtype of x; C a multiple of 8
};
/// @return InvalidArgument | Unsupported (dtype or alignment) | DeviceError
/// Cost: one read of x, one write of out. No workspace. Asynchronous on `stream`; the same bits in
/// every run. Oracle: src/reference/upsample.cc.
Status upsample(const Context& context, const UpsampleArgs& args);

}  // namespace vsa
