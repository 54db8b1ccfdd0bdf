// Video files: what was written is decoded and compared; what cannot be written leaves nothing.
#include "runtime/video/write_video.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/video/quality.h"
#include "runtime/video/read_video.h"
#include "tests/unit/runtime/io/disk_limit.h"
#include "tests/unit/runtime/io/files.h"
#include "tests/unit/runtime/video/clips.h"

namespace vsa::video {
namespace {

using test::moving_disk;
using test::ScratchDirectory;
using testing::HasSubstr;

double worst_psnr_db(const Frames& a, const Frames& b) {
  double worst = std::numeric_limits<double>::infinity();
  const std::vector<FrameQuality> quality = compare(a, b).value();
  for (const FrameQuality& frame : quality) worst = std::min(worst, frame.psnr_db);
  return worst;
}

int largest_difference(const Frames& a, const Frames& b) {
  int largest = a.rgb.size() == b.rgb.size() ? 0 : 256;
  for (size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) {
    largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
  }
  return largest;
}

/// The clip as it should look when every pixel is scale x scale pixels.
Frames enlarged(const Frames& clip, int64_t scale) {
  Frames result{clip.num_frames, clip.height * scale, clip.width * scale, {}};
  for (int64_t f = 0; f < clip.num_frames; ++f) {
    for (int64_t y = 0; y < result.height; ++y) {
      for (int64_t x = 0; x < result.width; ++x) {
        for (int64_t c = 0; c < 3; ++c) {
          result.rgb.push_back(
              clip.frame(f)[static_cast<size_t>((y / scale * clip.width + x / scale) * 3 + c)]);
        }
      }
    }
  }
  return result;
}

struct Kind {
  std::string file;
  double least_psnr_db;
};

class WriteVideo : public testing::TestWithParam<Kind> {
 protected:
  std::filesystem::path path() const { return scratch_ / GetParam().file; }
  ScratchDirectory scratch_;
};

// The bounds tell a right file from a wrong one: frames in another order give less than 15 dB, see
// NoticesWrongFrames. A gif has 256 colours for a gradient in two directions.
INSTANTIATE_TEST_SUITE_P(
    Kinds, WriteVideo,
    testing::Values(Kind{"a.mp4", 45.0}, Kind{"a.gif", 28.0}, Kind{"a.y4m", 45.0},
                    Kind{"frames/%04d.png", std::numeric_limits<double>::infinity()}),
    [](const auto& chosen) {
      const std::string& file = chosen.param.file;
      return file.substr(file.size() - 3);
    });

TEST_P(WriteVideo, R22_DecodesToTheSameFrames) {
  const Frames clip = moving_disk(16, 64, 64);
  throw_if_error(write_video(path(), clip, 8.0, 4));
  const Video read = read_video(path()).value();
  EXPECT_EQ(read.frames.num_frames, 16);
  EXPECT_EQ(read.frames.height, 256);
  EXPECT_EQ(read.frames.width, 256);
  if (GetParam().file.ends_with("png")) return;  // pictures have no rate
  // A gif counts 1/100 s, and its reader averages over all frames but the last.
  EXPECT_NEAR(read.fps, 8.0, GetParam().file.ends_with("gif") ? 0.1 : 1e-12);
  EXPECT_EQ(scratch_.num_entries(), 1U);
}

TEST_P(WriteVideo, ContentIsKept) {
  const Frames clip = moving_disk(16, 64, 64);
  for (const int64_t scale : {2, 4}) {
    throw_if_error(write_video(path(), clip, 8.0, scale));
    EXPECT_GE(worst_psnr_db(read_video(path()).value().frames, enlarged(clip, scale)),
              GetParam().least_psnr_db)
        << scale;
  }
}

TEST_P(WriteVideo, NoticesWrongFrames) {
  const Frames clip = moving_disk(16, 64, 64);
  throw_if_error(write_video(path(), clip, 8.0));
  Frames wrong = clip;
  std::rotate(wrong.rgb.begin(), wrong.rgb.begin() + 8 * wrong.frame_bytes(), wrong.rgb.end());
  EXPECT_LT(worst_psnr_db(read_video(path()).value().frames, wrong), 15.0);
}

TEST_P(WriteVideo, OddSizesAndOneFrame) {
  for (const auto& [frames, height, width] :
       std::vector<std::array<int64_t, 3>>{{1, 64, 64}, {3, 33, 21}, {2, 1, 1}, {2, 2, 63}}) {
    const Frames clip = moving_disk(frames, height, width);
    // The directory of png frames is used again, so frames of the last clip must not be read.
    std::filesystem::remove_all(scratch_ / "frames");
    const Status status = write_video(path(), clip, 24.0);
    ASSERT_TRUE(status.ok()) << status.message();
    const Frames read = read_video(path()).value().frames;
    const int64_t even = GetParam().file.ends_with("mp4") ? 2 : 1;
    EXPECT_EQ(read.num_frames, frames);
    EXPECT_EQ(read.height, (height + even - 1) / even * even);
    EXPECT_EQ(read.width, (width + even - 1) / even * even);
  }
}

/// Leaves freed memory behind that holds other bytes each time.
void dirty_free_memory(int round) {
  std::vector<std::vector<uint8_t>> blocks;
  for (size_t i = 0; i < 400; ++i) {
    blocks.emplace_back(16 + i * 977 % 200'000, static_cast<uint8_t>(37 * round + 1));
  }
}

// libx264 read memory that it had not written: three of six files of one video differed.
TEST_P(WriteVideo, P20_SameFramesGiveTheSameBytesTwentyTimes) {
  const bool is_png = GetParam().file.ends_with("png");
  const std::filesystem::path file = is_png ? scratch_ / "frames/0007.png" : path();
  for (const int64_t scale : {1, 3}) {
    const Frames clip = moving_disk(16, 64, 64);
    std::string first;
    for (int round = 0; round < 20; ++round) {
      dirty_free_memory(round);
      throw_if_error(write_video(path(), clip, 8.0, scale));
      const std::string bytes = test::read_text(file);
      if (round == 0) first = bytes;
      ASSERT_TRUE(bytes == first) << "round " << round << " at scale " << scale;
    }
  }
}

TEST_P(WriteVideo, R29_CancelLeavesNothing) {
  std::atomic<bool> cancel = true;
  const Frames clip = test::noise(4, 64, 64);
  const Status status = write_video(path(), clip, 8.0, 1, &cancel);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_THAT(status.message(), HasSubstr("cancelled"));
  EXPECT_EQ(scratch_.num_entries(), 0U);
  cancel = false;
  throw_if_error(write_video(path(), clip, 8.0, 1, &cancel));
}

TEST_P(WriteVideo, R21_WriteErrorLeavesNothing) {
  const Frames clip = test::noise(4, 64, 64);
  const test::FileSizeLimit limit(3000);
  const Status status = write_video(path(), clip, 8.0);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("[write_file] "));
  EXPECT_THAT(status.message(), HasSubstr("File too large"));
  EXPECT_EQ(scratch_.num_entries(), 0U);
}

TEST_P(WriteVideo, R21_DiskFullKeepsTheFileOfBefore) {
  const test::SmallDisk disk(scratch_ / "disk");
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a small disk is not permitted here";
  const auto on_disk = disk / GetParam().file;
  throw_if_error(write_video(on_disk, moving_disk(1, 16, 16), 8.0));
  const Frames before = read_video(on_disk).value().frames;
  const Status status = write_video(on_disk, test::noise(8, 128, 128), 8.0);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("No space left"));
  EXPECT_EQ(read_video(on_disk).value().frames.rgb, before.rgb);
}

TEST_P(WriteVideo, R21_UnwritablePathIsFoundBefore) {
  test::write_text(scratch_ / "file", "");
  const auto below_file = scratch_ / "file" / "missing" / GetParam().file;
  EXPECT_EQ(check_video_path(below_file).code(), StatusCode::kIoError);
  EXPECT_EQ(write_video(below_file, moving_disk(1, 8, 8), 8.0).code(), StatusCode::kIoError);
  EXPECT_EQ(check_video_path(scratch_ / "file" / GetParam().file).code(), StatusCode::kIoError);
  EXPECT_TRUE(check_video_path(path()).ok());
  EXPECT_EQ(scratch_.num_entries(), 1U);
}

TEST_P(WriteVideo, RefusesWrongArguments) {
  const Frames clip = moving_disk(2, 8, 8);
  const auto refused = [&](const Frames& frames, double fps, int64_t scale, const char* argument) {
    const Status status = write_video(path(), frames, fps, scale);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(std::string("[write_video] ") + argument + ": "));
  };
  for (const double fps : {0.0, -8.0, 1001.0, std::nan(""), HUGE_VAL}) refused(clip, fps, 1, "fps");
  for (const int64_t scale : {int64_t{0}, int64_t{-1}, int64_t{4096}, INT64_MAX}) {
    refused(clip, 8.0, scale, "scale");
  }
  refused({}, 8.0, 1, "frames");
  Frames cut = clip;
  cut.rgb.pop_back();
  refused(cut, 8.0, 1, "frames");
  EXPECT_EQ(scratch_.num_entries(), 0U);
}

TEST(WriteVideoExactly, Y4mErrsByRoundingOnly) {
  const ScratchDirectory scratch;
  const Frames clip = moving_disk(2, 40, 50);
  throw_if_error(write_video(scratch / "a.y4m", clip, 8.0));
  // Half a level in each of Y, Cb and Cr: (1.164 + 2.018) / 2 = 1.6 levels in blue, the worst
  // channel; half a level more for rounding to RGB, and half for libswscale's fixed point.
  EXPECT_LE(largest_difference(read_video(scratch / "a.y4m").value().frames, clip), 2);
}

TEST(WriteVideoExactly, Y4mNamesTheExactRate) {
  const ScratchDirectory scratch;
  for (const auto& [fps, header] :
       std::vector<std::pair<double, std::string>>{{8.0, " F8:1 "},
                                                   {24000.0 / 1001.0, " F24000:1001 "},
                                                   {23.976, " F2997:125 "},
                                                   {12.5, " F25:2 "}}) {
    throw_if_error(write_video(scratch / "a.y4m", moving_disk(1, 4, 4), fps));
    EXPECT_THAT(test::read_text(scratch / "a.y4m").substr(0, 60), HasSubstr(header));
  }
}

TEST(WriteVideoExactly, Mp4KeepsRates) {
  const ScratchDirectory scratch;
  for (const double fps : {8.0, 16.0, 24.0, 30.0, 24000.0 / 1001.0, 12.5, 0.5}) {
    throw_if_error(write_video(scratch / "a.mp4", moving_disk(5, 16, 16), fps));
    const Video read = read_video(scratch / "a.mp4").value();
    EXPECT_DOUBLE_EQ(read.fps, fps);
    EXPECT_EQ(read.frames.num_frames, 5);
  }
}

TEST(WriteVideoExactly, PngFramesAreNumberedFromZero) {
  const ScratchDirectory scratch;
  const Frames clip = moving_disk(3, 8, 8);
  throw_if_error(write_video(scratch / "x/f%03d.png", clip, 8.0));
  for (const char* name : {"x/f000.png", "x/f001.png", "x/f002.png"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch / name)) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "x/f003.png"));
  throw_if_error(write_video(scratch / "%d.png", clip, 8.0));  // no directory of its own
  EXPECT_TRUE(std::filesystem::exists(scratch / "2.png"));
}

TEST(VideoKind, R22_TheExactNameDecides) {
  EXPECT_EQ(video_kind("a.mp4").value(), VideoKind::kMp4);
  EXPECT_EQ(video_kind("dir.gif/a.MP4").value(), VideoKind::kMp4);
  EXPECT_EQ(video_kind("a.b.gif").value(), VideoKind::kGif);
  EXPECT_EQ(video_kind("a.y4m").value(), VideoKind::kY4m);
  EXPECT_EQ(video_kind("frames/%04d.png").value(), VideoKind::kPngFrames);
  EXPECT_EQ(video_kind("%d.png").value(), VideoKind::kPngFrames);
}

TEST(VideoKind, R22_OtherNamesAreRefusedWithTheKinds) {
  const ScratchDirectory scratch;
  for (const char* name :
       {"v1.2", "noext", "", ".mp4", "a.mp4.", "a.avi", "a.mp44", "mp4", "a.png", "%s.png",
        "%04x.png", "%04d%d.png", "%.png", "%0d.png", "%04d/a.png", "%d/%d.png", "a.mp4/"}) {
    const std::filesystem::path path =
        name == std::string() ? std::filesystem::path() : scratch / name;
    for (const Status& status :
         {check_video_path(path), write_video(path, moving_disk(1, 8, 8), 8.0)}) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
      for (const char* kind : {".mp4", ".gif", ".y4m", "%04d.png"}) {
        EXPECT_THAT(status.message(), HasSubstr(kind));
      }
    }
  }
  EXPECT_EQ(scratch.num_entries(), 0U);
}

}  // namespace
}  // namespace vsa::video
