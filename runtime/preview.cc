// Small pictures of latents while they are sampled.
#include "runtime/preview.h"

#include <cmath>

#include "runtime/sampler/noise.h"
#include "runtime/vae/decoder.h"
#include "runtime/video/pixels.h"

namespace vsa::runtime {
namespace {

// Patches of 3x3 equal latents, so that the middle one is hardly touched by its neighbours' values;
// 8x8 of them are four times as many as Wan2.1 has unknowns (16 channels and a constant).
constexpr int64_t kPatch = 3;
constexpr int64_t kPatches = 8;
constexpr int64_t kEdge = kPatch * kPatches;
constexpr int64_t kSamples = kPatches * kPatches;

/// Solves A x = b in place for a symmetric positive definite A by Cholesky's method.
/// @param a  [n, n]
/// @param b  [n], becomes x
void solve(std::vector<double> a, std::vector<double>& b) {
  const size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) {
      for (size_t i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * a[j * n + k];
    }
    const double pivot = std::sqrt(a[j * n + j]);
    for (size_t i = j; i < n; ++i) a[i * n + j] /= pivot;
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
}

/// What is fitted: for every patch its latents with a 1 behind them, and its colour.
struct Samples {
  int64_t channels = 0;
  std::vector<float> latents;                 // [channels, 1, kEdge, kEdge]
  std::vector<std::array<double, 3>> colour;  // [kSamples]

  double unknown(int64_t sample, int64_t i) const {
    if (i == channels) return 1.0;
    const int64_t row = sample / kPatches * kPatch;
    const int64_t column = sample % kPatches * kPatch;
    return latents[static_cast<size_t>((i * kEdge + row) * kEdge + column)];
  }
};

std::vector<float> random_patches(int64_t channels) {
  std::vector<float> values(static_cast<size_t>(channels * kSamples));
  sampler::normal(/*seed=*/0, /*stream=*/0, 0, values);
  std::vector<float> latents;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < kEdge; ++y) {
      for (int64_t x = 0; x < kEdge; ++x) {
        latents.push_back(
            values[static_cast<size_t>((c * kPatches + y / kPatch) * kPatches + x / kPatch)]);
      }
    }
  }
  return latents;
}

/// The mean colour of the pixels of each patch's middle latent.
std::vector<std::array<double, 3>> middle_colours(const vae::FrameChunk& frame) {
  const int64_t factor = frame.width / kEdge;
  std::vector<std::array<double, 3>> colours(static_cast<size_t>(kSamples));
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const int64_t top = (sample / kPatches * kPatch + kPatch / 2) * factor;
    const int64_t left = (sample % kPatches * kPatch + kPatch / 2) * factor;
    for (int64_t y = top; y < top + factor; ++y) {
      for (int64_t x = left; x < left + factor; ++x) {
        for (int64_t c = 0; c < 3; ++c) {
          colours[static_cast<size_t>(sample)][static_cast<size_t>(c)] +=
              frame.rgb[static_cast<size_t>((y * frame.width + x) * 3 + c)] /
              static_cast<double>(factor * factor);
        }
      }
    }
  }
  return colours;
}

}  // namespace

LatentColours LatentColours::of_pixels() {
  LatentColours colours;
  colours.channels_ = 3;
  colours.map_ = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  return colours;
}

Result<LatentColours> LatentColours::fit(vae::Model& decoder) {
  Samples samples{.channels = decoder.config().z_dim, .latents = {}, .colour = {}};
  samples.latents = random_patches(samples.channels);
  VSA_TRY(vae::decode({.latents = samples.latents.data(),
                       .frames = 1,
                       .height = kEdge,
                       .width = kEdge,
                       .split = {},
                       .on_frames =
                           [&](const vae::FrameChunk& frame) {
                             samples.colour = middle_colours(frame);
                             return Status();
                           },
                       .control = {}},
                      decoder));
  const int64_t n = samples.channels + 1;
  std::vector<double> normal(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    normal[static_cast<size_t>(i * n + i)] = 1e-6;  // solvable whatever the latents are
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t s = 0; s < kSamples; ++s) {
        normal[static_cast<size_t>(i * n + j)] += samples.unknown(s, i) * samples.unknown(s, j);
      }
    }
  }
  LatentColours colours;
  colours.channels_ = samples.channels;
  for (size_t c = 0; c < 3; ++c) {
    std::vector<double> weights(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t s = 0; s < kSamples; ++s) {
        weights[static_cast<size_t>(i)] +=
            samples.unknown(s, i) * samples.colour[static_cast<size_t>(s)][c];
      }
    }
    solve(normal, weights);
    colours.map_.insert(colours.map_.end(), weights.begin(), weights.end());
  }
  return colours;
}

video::Frames LatentColours::picture(std::span<const float> latents,
                                     const std::vector<int64_t>& shape) const {
  const int64_t pixels = shape[1] * shape[2] * shape[3];
  video::Frames frames{.num_frames = shape[1],
                       .height = shape[2],
                       .width = shape[3],
                       .rgb = std::vector<uint8_t>(static_cast<size_t>(3 * pixels))};
  for (int64_t c = 0; c < 3; ++c) {
    const double* const weights = map_.data() + c * (channels_ + 1);
    for (int64_t i = 0; i < pixels; ++i) {
      double colour = weights[channels_];
      for (int64_t z = 0; z < channels_; ++z) {
        colour += weights[z] * latents[static_cast<size_t>(z * pixels + i)];
      }
      frames.rgb[static_cast<size_t>(i * 3 + c)] = video::to_byte(static_cast<float>(colour));
    }
  }
  return frames;
}

}  // namespace vsa::runtime
