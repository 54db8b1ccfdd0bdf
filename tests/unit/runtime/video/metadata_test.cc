// What a file says about itself comes back, and changes no pixel.
#include "runtime/video/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/video/image.h"
#include "runtime/video/read_video.h"
#include "runtime/video/write_video.h"
#include "tests/unit/runtime/io/files.h"
#include "tests/unit/runtime/video/clips.h"

namespace vsa::video {
namespace {

using test::moving_disk;

/// Longer than a GIF's block of 255 bytes, and not ASCII.
const Metadata kTexts{.title = "a \u6F22 \"star\" \U0001F680",
                      .comment = "{\"prompt\":\"\u00E9\"}" + std::string(700, 'x')};

class VideoMetadata : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path() const { return folder_ / GetParam(); }
  /// Of the first frame where there are files of frames.
  std::filesystem::path file() const {
    return path().extension() == ".png" ? folder_ / "frames/0.png" : path();
  }
  test::ScratchDirectory folder_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, VideoMetadata, testing::Values("a.mp4", "a.gif", "frames/%d.png"),
                         [](const auto& chosen) {
                           const std::string file = chosen.param;
                           return file.substr(file.size() - 3);
                         });

TEST_P(VideoMetadata, P31_ComesBackAndChangesNoFrame) {
  const Frames clip = moving_disk(6, 32, 32);
  throw_if_error(write_video(path(), clip, 8.0));
  EXPECT_TRUE(read_metadata(file()).value().empty());
  const Frames without = read_video(path()).value().frames;
  throw_if_error(write_video(path(), clip, 8.0, 1, nullptr, kTexts));
  const Metadata read = read_metadata(file()).value();
  EXPECT_EQ(read.comment, kTexts.comment);
  EXPECT_EQ(read.title, path().extension() == ".gif" ? "" : kTexts.title);
  const Video with = read_video(path()).value();
  EXPECT_EQ(with.frames.num_frames, 6);
  EXPECT_EQ(with.frames.rgb, without.rgb);
}

TEST(PictureMetadata, P31_OfAPicture) {
  const test::ScratchDirectory folder;
  throw_if_error(write_png(folder / "sheet.png", Image::filled(4, 4, {1, 2, 3}), kTexts));
  EXPECT_EQ(read_metadata(folder / "sheet.png").value().comment, kTexts.comment);
  EXPECT_EQ(read_metadata(folder / "sheet.png").value().title, kTexts.title);
}

TEST(PictureMetadata, P31_Y4mHoldsNone) {
  const test::ScratchDirectory folder;
  throw_if_error(write_video(folder / "a.y4m", moving_disk(2, 8, 8), 8.0, 1, nullptr, kTexts));
  const std::string with = test::read_text(folder / "a.y4m");
  throw_if_error(write_video(folder / "a.y4m", moving_disk(2, 8, 8), 8.0));
  EXPECT_EQ(test::read_text(folder / "a.y4m"), with);
  EXPECT_EQ(read_metadata(folder / "a.y4m").status().code(), StatusCode::kIoError);
}

TEST(PictureMetadata, P31_FilesThatAreCutGiveWhatIsThere) {
  const test::ScratchDirectory folder;
  for (const char* name : {"a.gif", "0.png"}) {
    const std::filesystem::path video = folder / (name[0] == '0' ? "%d.png" : name);
    throw_if_error(write_video(video, moving_disk(1, 8, 8), 8.0, 1, nullptr, kTexts));
    const std::string whole = test::read_text(folder / name);
    for (size_t size = 8; size < whole.size(); ++size) {
      test::write_text(folder / "cut", whole.substr(0, size));
      EXPECT_TRUE(read_metadata(folder / "cut").ok()) << name << size;
    }
  }
}

}  // namespace
}  // namespace vsa::video
