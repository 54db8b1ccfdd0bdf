// A video that is written while its frames are made: the same bytes, or nothing.
#include "runtime/video/background_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/io/disk_limit.h"
#include "tests/unit/runtime/io/files.h"
#include "tests/unit/runtime/video/clips.h"

namespace vsa::video {
namespace {

class Background : public testing::TestWithParam<const char*> {
 protected:
  test::ScratchDirectory folder_;
  const Frames clip_ = test::moving_disk(9, 24, 32);
};

TEST_P(Background, WritesTheBytesOfWriteVideo) {
  ASSERT_TRUE(write_video(folder_ / "whole" / GetParam(), clip_, 8.0, 2).ok());
  BackgroundWriter writer({.path = folder_ / "parts" / GetParam(), .fps = 8.0, .scale = 2}, 9, 24,
                          32);
  const std::span<const uint8_t> rgb(clip_.rgb);
  const auto frame = static_cast<size_t>(clip_.frame_bytes());
  writer.add(rgb.first(frame));
  writer.add(rgb.subspan(frame, 4 * frame));
  writer.add(rgb.subspan(5 * frame));
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(writer.take_frames().rgb, clip_.rgb);
  const std::string file = std::string(GetParam()) == "%02d.png" ? "07.png" : GetParam();
  EXPECT_EQ(test::read_text(folder_ / "parts" / file), test::read_text(folder_ / "whole" / file));
}

TEST_P(Background, LeavesNothingIfFramesAreMissing) {
  {
    BackgroundWriter writer({.path = folder_ / GetParam(), .fps = 8.0}, 9, 24, 32);
    writer.add(std::span<const uint8_t>(clip_.rgb).first(3 * 24 * 32 * 3));
  }
  EXPECT_EQ(folder_.num_entries(), 0U);
}

TEST_P(Background, R21_AWriteErrorIsTold) {
  const test::FileSizeLimit limit(200);
  BackgroundWriter writer({.path = folder_ / GetParam(), .fps = 8.0}, 9, 24, 32);
  writer.add(clip_.rgb);
  EXPECT_EQ(writer.finish().code(), StatusCode::kIoError);
  EXPECT_EQ(folder_.num_entries(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Background, testing::Values("a.mp4", "a.gif", "a.y4m", "%02d.png"),
                         [](const auto& kind) {
                           const std::string name = kind.param;
                           return name.substr(name.size() - 3);
                         });

}  // namespace
}  // namespace vsa::video
