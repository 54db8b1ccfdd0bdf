// A convolution that sees the frames of earlier chunks. Host-only.
#pragma once

#include <cstdint>

#include "runtime/nn/conv.h"
#include "runtime/vae/cpu/workspace.h"
#include "runtime/vae/weights.h"

namespace vsa::vae::cpu {

/// What lies around the rows and columns of an input: zeros where the frame ends.
struct Edges {
  int64_t height = 0, width = 0;  ///< of the input
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

/// The input of a convolution of 3x3 that makes `out` of the rows `in`.
Edges edges_3x3(Rows in, Rows out, int64_t width);

/// Frames go through it chunk by chunk with the same result as all at once, because it keeps the
/// last frames of its input. The input lies in a buffer behind the place of the kept frames.
class CausalConv {
 public:
  CausalConv() = default;
  explicit CausalConv(const ConvWeights& weights, int64_t frame_stride = 1);

  /// Where forward() expects the frames in `padded`.
  /// @param pixels  of a frame
  float* input(nn::Buffer& padded, int64_t pixels) const {
    return padded.data() + kept_ * pixels * channels_;
  }

  /// y = the convolution over the kept frames and the new ones; zeros ahead of a video's first.
  /// @param padded  holds num_frames at input(); the place before it is overwritten
  void forward(const Edges& edges, int64_t num_frames, History& history, nn::Buffer& padded,
               float* y, nn::Into into = nn::Into::kReplace) const;

  /// Keeps frames as forward() does, without computing an output.
  void remember(int64_t pixels, int64_t num_frames, History& history, nn::Buffer& padded) const;

 private:
  void recall(int64_t pixels, int64_t num_frames, const History& history, nn::Buffer& padded) const;
  void keep(int64_t pixels, int64_t num_frames, History& history, const nn::Buffer& padded) const;

  nn::Conv conv_;
  int64_t kept_ = 0;  // frames
  int64_t channels_ = 0;
};

/// Frames that a convolution over three frames keeps: with a stride of 2, chunks of even length
/// leave one.
constexpr int64_t frames_kept(int64_t frame_stride) { return 3 - frame_stride; }

}  // namespace vsa::vae::cpu
