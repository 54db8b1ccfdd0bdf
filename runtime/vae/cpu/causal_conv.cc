// A convolution that sees the frames of earlier chunks. Host-only.
#include "runtime/vae/cpu/causal_conv.h"

#include <algorithm>

namespace vsa::vae::cpu {

Edges edges_3x3(Rows in, Rows out, int64_t width) {
  return {.height = in.size(),
          .width = width,
          .top = in.begin - (out.begin - 1),
          .bottom = out.end + 1 - in.end,
          .left = 1,
          .right = 1};
}

CausalConv::CausalConv(const ConvWeights& weights, int64_t frame_stride) {
  if (weights.empty()) return;
  conv_ = nn::Conv(weights.weight, weights.bias, {.frames = frame_stride});
  kept_ = frames_kept(frame_stride);
  channels_ = weights.weight.shape[1];
}

void CausalConv::recall(int64_t pixels, int64_t num_frames, const History& history,
                        nn::Buffer& padded) const {
  if (!history.frames.empty()) {
    std::ranges::copy(history.frames, padded.data());
  } else if (num_frames < kept_) {  // zeros will be kept too
    std::fill_n(padded.data(), kept_ * pixels * channels_, 0.0F);
  }
}

void CausalConv::keep(int64_t pixels, int64_t num_frames, History& history,
                      const nn::Buffer& padded) const {
  const int64_t frame = pixels * channels_;
  if (history.frames.empty()) history.frames = history.space->take(kept_ * frame);
  std::copy_n(padded.data() + num_frames * frame, kept_ * frame, history.frames.data());
}

void CausalConv::remember(int64_t pixels, int64_t num_frames, History& history,
                          nn::Buffer& padded) const {
  recall(pixels, num_frames, history, padded);
  keep(pixels, num_frames, history, padded);
}

void CausalConv::forward(const Edges& edges, int64_t num_frames, History& history,
                         nn::Buffer& padded, float* y, nn::Into into) const {
  const int64_t pixels = edges.height * edges.width;
  // Zeros ahead of a video are left to the convolution, which skips them.
  const bool first = history.frames.empty();
  recall(pixels, num_frames, history, padded);
  keep(pixels, num_frames, history, padded);
  conv_.forward({.frames = num_frames + (first ? 0 : kept_),
                 .height = edges.height,
                 .width = edges.width,
                 .front = first ? kept_ : 0,
                 .top = edges.top,
                 .bottom = edges.bottom,
                 .left = edges.left,
                 .right = edges.right},
                first ? input(padded, pixels) : padded.data(), y, into);
}

}  // namespace vsa::vae::cpu
