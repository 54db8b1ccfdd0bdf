// Reading videos: damaged and foreign files are refused in one line, and nothing is printed.
#include "runtime/video/read_video.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/video/write_video.h"
#include "tests/unit/runtime/io/files.h"
#include "tests/unit/runtime/video/clips.h"

namespace vsa::video {
namespace {

using test::ScratchDirectory;

TEST(ReadVideo, RefusesWhatIsNoVideo) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "text.mp4", "not a video");
  test::write_text(scratch / "empty.mp4", "");
  throw_if_error(write_video(scratch / "good.mp4", test::moving_disk(4, 16, 16), 8.0));
  const std::string good = test::read_text(scratch / "good.mp4");
  test::write_text(scratch / "cut.mp4", good.substr(0, good.size() / 2));
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  std::vector<Status> statuses;
  for (const char* name : {"text.mp4", "empty.mp4", "missing.mp4", "cut.mp4", "%04d.png"}) {
    statuses.push_back(read_video(scratch / name).status());
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_THAT(status.message(), testing::StartsWith("[read_video] " + scratch.path().string()));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

TEST(ReadVideo, GifKeepsItsLengthThoughItsClockIsCoarse) {
  const ScratchDirectory scratch;
  // 16 frames at 8 fps are 2 s; 12.5/100 s cannot be written, 12 and 13 in turn can.
  throw_if_error(write_video(scratch / "a.gif", test::moving_disk(16, 16, 16), 8.0));
  const std::string gif = test::read_text(scratch / "a.gif");
  int total = 0;
  int count = 0;
  // Graphic control extension: 21 F9 04 flags delay(2, little-endian) ...
  for (size_t at = gif.find("\x21\xF9\x04"); at != gif.npos;
       at = gif.find("\x21\xF9\x04", at + 1)) {
    total +=
        static_cast<unsigned char>(gif[at + 4]) + 256 * static_cast<unsigned char>(gif[at + 5]);
    ++count;
  }
  EXPECT_EQ(count, 16);
  EXPECT_NEAR(total, 200, 1);
}

}  // namespace
}  // namespace vsa::video
