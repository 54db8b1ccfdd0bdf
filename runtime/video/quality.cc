// How alike two videos are, frame by frame.
#include "runtime/video/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

namespace vsa::video {
namespace {

constexpr int64_t kRadius = 5;
constexpr double kSigma = 1.5;

struct Size {
  int64_t height = 0, width = 0;
};

double psnr_db(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double e = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += e * e;
  }
  if (sum == 0.0) return std::numeric_limits<double>::infinity();
  return 10.0 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

using Plane = std::vector<double>;  // [height, width]

Plane luma(std::span<const uint8_t> rgb) {
  Plane y(rgb.size() / 3);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
  }
  return y;
}

Plane product(const Plane& a, const Plane& b) {
  Plane p(a.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = a[i] * b[i];
  return p;
}

/// The window's weight at each distance from its centre.
std::array<double, kRadius + 1> window() {
  std::array<double, kRadius + 1> weights{};
  for (size_t d = 0; d < weights.size(); ++d) {
    weights[d] = std::exp(-static_cast<double>(d * d) / (2.0 * kSigma * kSigma));
  }
  return weights;
}

/// Blurs `count` numbers that lie `stride` apart.
void blur_line(const double* in, double* out, int64_t count, int64_t stride) {
  static const std::array<double, kRadius + 1> weight_at = window();
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0.0;
    double weights = 0.0;
    for (int64_t j = std::max<int64_t>(0, i - kRadius); j <= std::min(count - 1, i + kRadius);
         ++j) {
      const double weight = weight_at[static_cast<size_t>(std::abs(i - j))];
      sum += weight * in[j * stride];
      weights += weight;
    }
    out[i * stride] = sum / weights;
  }
}

/// Weighted mean around every pixel. The Gaussian is a product, so rows, then columns.
Plane blur(const Plane& x, Size size) {
  Plane rows(x.size());
  Plane out(x.size());
  for (int64_t r = 0; r < size.height; ++r) {
    blur_line(x.data() + r * size.width, rows.data() + r * size.width, size.width, 1);
  }
  for (int64_t c = 0; c < size.width; ++c) {
    blur_line(rows.data() + c, out.data() + c, size.height, size.width);
  }
  return out;
}

double ssim(const Plane& a, const Plane& b, Size size) {
  constexpr double kC1 = (0.01 * 255.0) * (0.01 * 255.0);
  constexpr double kC2 = (0.03 * 255.0) * (0.03 * 255.0);
  const Plane mean_a = blur(a, size);
  const Plane mean_b = blur(b, size);
  const Plane mean_aa = blur(product(a, a), size);
  const Plane mean_bb = blur(product(b, b), size);
  const Plane mean_ab = blur(product(a, b), size);
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double variance_a = mean_aa[i] - mean_a[i] * mean_a[i];
    const double variance_b = mean_bb[i] - mean_b[i] * mean_b[i];
    const double covariance = mean_ab[i] - mean_a[i] * mean_b[i];
    sum +=
        (2.0 * mean_a[i] * mean_b[i] + kC1) * (2.0 * covariance + kC2) /
        ((mean_a[i] * mean_a[i] + mean_b[i] * mean_b[i] + kC1) * (variance_a + variance_b + kC2));
  }
  return sum / static_cast<double>(a.size());
}

}  // namespace

Result<std::vector<FrameQuality>> compare(const Frames& a, const Frames& b) {
  if (a.num_frames < 1 || a.num_frames != b.num_frames || a.height != b.height ||
      a.width != b.width) {
    return invalid_argument(fmt::format("[compare] b: expected {} frames of {}x{}, got {} of {}x{}",
                                        a.num_frames, a.height, a.width, b.num_frames, b.height,
                                        b.width));
  }
  std::vector<FrameQuality> all;
  for (int64_t i = 0; i < a.num_frames; ++i) {
    all.push_back(
        {.psnr_db = psnr_db(a.frame(i), b.frame(i)),
         .ssim = ssim(luma(a.frame(i)), luma(b.frame(i)), {.height = a.height, .width = a.width})});
  }
  return all;
}

}  // namespace vsa::video
