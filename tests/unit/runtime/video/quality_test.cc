// PSNR and SSIM against values worked out by hand.
#include "runtime/video/quality.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/runtime/video/clips.h"

namespace vsa::video {
namespace {

Frames flat(int64_t height, int64_t width, uint8_t level) {
  return {1, height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3), level)};
}

TEST(Quality, EqualFrames) {
  const Frames clip = test::moving_disk(3, 20, 30);
  const auto quality = compare(clip, clip).value();
  ASSERT_EQ(quality.size(), 3U);
  for (const FrameQuality& frame : quality) {
    EXPECT_EQ(frame.psnr_db, INFINITY);
    EXPECT_NEAR(frame.ssim, 1.0, 1e-12);
  }
}

TEST(Quality, PsnrOfOneWrongByte) {
  const Frames a = flat(2, 2, 100);
  Frames b = a;
  b.rgb[5] = 112;
  // Mean squared error 144 / 12 = 12.
  EXPECT_NEAR(compare(a, b).value()[0].psnr_db, 10.0 * std::log10(65025.0 / 12.0), 1e-12);
}

TEST(Quality, PsnrOfBlackAgainstWhite) {
  EXPECT_NEAR(compare(flat(4, 4, 0), flat(4, 4, 255)).value()[0].psnr_db, 0.0, 1e-12);
}

TEST(Quality, SsimOfFlatFramesComparesMeansOnly) {
  const double c1 = 0.01 * 255 * 0.01 * 255;
  const double expected = (2.0 * 50 * 200 + c1) / (50.0 * 50 + 200 * 200 + c1);
  EXPECT_NEAR(compare(flat(16, 16, 50), flat(16, 16, 200)).value()[0].ssim, expected, 1e-9);
}

TEST(Quality, SsimOfOppositeStripesIsNegative) {
  // Columns of 0 and 200 in turn against 200 and 0: equal means, covariance = -variance.
  Frames a = flat(32, 32, 0);
  Frames b = a;
  for (size_t i = 0; i < a.rgb.size(); ++i) (i / 3 % 2 == 0 ? a : b).rgb[i] = 200;
  const double ssim = compare(a, b).value()[0].ssim;
  EXPECT_LT(ssim, -0.9);
  EXPECT_GE(ssim, -1.0);
}

TEST(Quality, SsimFallsWithNoise) {
  const Frames a = test::moving_disk(1, 48, 48);
  const Frames noise = test::noise(1, 48, 48);
  double last = 1.0;
  for (const int share : {16, 8, 4}) {
    Frames b = a;
    for (size_t i = 0; i < b.rgb.size(); ++i) {
      b.rgb[i] = static_cast<uint8_t>(b.rgb[i] + (noise.rgb[i] - b.rgb[i]) / share);
    }
    const double ssim = compare(a, b).value()[0].ssim;
    EXPECT_LT(ssim, last - 0.01) << share;
    last = ssim;
  }
}

TEST(Quality, FramesOfOnePixelHaveAValue) {
  const FrameQuality frame = compare(flat(1, 1, 10), flat(1, 1, 10)).value()[0];
  EXPECT_NEAR(frame.ssim, 1.0, 1e-12);
}

TEST(Quality, RefusesOtherSizes) {
  for (const Frames& other : {flat(2, 3, 0), flat(3, 2, 0), test::noise(2, 2, 2), Frames{}}) {
    EXPECT_EQ(compare(flat(2, 2, 0), other).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(compare({}, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vsa::video
