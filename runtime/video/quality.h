// How alike two videos are, frame by frame. Host-only.
#pragma once

#include <vector>

#include "runtime/video/frames.h"
#include "vsa/status.h"

namespace vsa::video {

/// One frame against its counterpart.
struct FrameQuality {
  double psnr_db =
      0.0;            ///< 10 log10(255^2 / mean squared error) over R, G and B; infinite if equal
  double ssim = 0.0;  ///< mean structural similarity of luma, -1 to 1; 1 if equal
};

/// SSIM (Wang et al. 2004): Gaussian window of 11 x 11 with sigma 1.5, K1 = 0.01, K2 = 0.03, over
/// BT.601 luma; near an edge the window is cut off and its weights normalised again, so that every
/// pixel counts and frames of any size have a value.
/// @return InvalidArgument if the videos differ in size or length, or have no frames
Result<std::vector<FrameQuality>> compare(const Frames& a, const Frames& b);

}  // namespace vsa::video
