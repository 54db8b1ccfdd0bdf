// Files that appear whole or not at all, whatever goes wrong on the way.
#include "runtime/io/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/io/disk_limit.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using test::read_text;
using test::ScratchDirectory;
using testing::HasSubstr;

TEST(AtomicFile, AppearsOnCommit) {
  const ScratchDirectory scratch;
  AtomicFile file = AtomicFile::create(scratch / "a").value();
  throw_if_error(file.write("hello world"));
  throw_if_error(file.seek(6));
  throw_if_error(file.write("W"));
  EXPECT_EQ(file.position(), 7);
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
  throw_if_error(file.commit());
  EXPECT_EQ(read_text(scratch / "a"), "hello World");
  EXPECT_EQ(scratch.num_entries(), 1U);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "a", "before");
  {
    AtomicFile file = AtomicFile::create(scratch / "a").value();
    throw_if_error(file.write("after"));
    throw_if_error(file.seal());
    EXPECT_EQ(scratch.num_entries(), 2U);
  }
  EXPECT_EQ(read_text(scratch / "a"), "before");
  EXPECT_EQ(scratch.num_entries(), 1U);
}

TEST(AtomicFile, ReplacesAndFollowsTheUmask) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "a", "before");
  throw_if_error(write_file(scratch / "a", "after"));
  EXPECT_EQ(read_text(scratch / "a"), "after");
  struct stat info {};
  ASSERT_EQ(::stat((scratch / "a").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST(AtomicFile, MovesOwnership) {
  const ScratchDirectory scratch;
  std::vector<AtomicFile> files;
  for (const char* name : {"a", "b", "c"}) {
    files.push_back(AtomicFile::create(scratch / name).value());
    throw_if_error(files.back().write(std::string_view(name)));
  }
  for (AtomicFile& file : files) throw_if_error(file.commit());
  files.clear();
  EXPECT_EQ(scratch.num_entries(), 3U);
  EXPECT_EQ(read_text(scratch / "b"), "b");
}

TEST(AtomicFile, R21_WriteErrorIsKeptAndNothingStays) {
  const ScratchDirectory scratch;
  const test::FileSizeLimit limit(1000);
  AtomicFile file = AtomicFile::create(scratch / "a").value();
  throw_if_error(file.write(std::string(900, 'x')));
  const Status status = file.write(std::string(900, 'x'));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("[write_file] " + (scratch / "a").string()));
  EXPECT_EQ(file.write("x").message(), status.message());
  EXPECT_EQ(file.seek(0).message(), status.message());
  EXPECT_EQ(file.commit().message(), status.message());
  EXPECT_EQ(scratch.num_entries(), 0U);
}

TEST(AtomicFile, R21_DiskFull) {
  const ScratchDirectory scratch;
  const test::SmallDisk disk(scratch / "disk");
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a small disk is not permitted here";
  throw_if_error(write_file(disk / "a", "before"));
  const Status status = write_file(disk / "a", std::string(100'000, 'x'));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("No space left"));
  EXPECT_EQ(read_text(disk / "a"), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(disk / ""), {}), 1);
}

TEST(AtomicFile, ConcurrentWritersLeaveOneWholeFile) {
  const ScratchDirectory scratch;
  std::vector<std::thread> threads;
  std::vector<Status> statuses(8);
  for (size_t i = 0; i < statuses.size(); ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = write_file(scratch / "a", std::string(100'000, static_cast<char>('a' + i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
  const std::string text = read_text(scratch / "a");
  ASSERT_EQ(text.size(), 100'000U);
  EXPECT_EQ(text, std::string(100'000, text[0]));
  EXPECT_EQ(scratch.num_entries(), 1U);
}

TEST(AtomicFile, P33_MakesTheFoldersOfItsNameAndRemovesThemIfItFails) {
  const ScratchDirectory scratch;
  EXPECT_TRUE(check_writable(scratch / "a/b/c").ok());
  EXPECT_EQ(scratch.num_entries(), 0U);
  {
    const AtomicFile file = AtomicFile::create(scratch / "a/b/c").value();
    EXPECT_TRUE(std::filesystem::is_directory(scratch / "a/b"));
  }
  EXPECT_EQ(scratch.num_entries(), 0U);
  throw_if_error(write_file(scratch / "a/b/c", "text"));
  EXPECT_EQ(read_text(scratch / "a/b/c"), "text");
  { const AtomicFile file = AtomicFile::create(scratch / "a/d/e").value(); }
  EXPECT_FALSE(std::filesystem::exists(scratch / "a/d"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "a/b/c"));
  EXPECT_THAT(AtomicFile::create(scratch / "a/b/c/d/e").status().message(), HasSubstr("a/b/c"));
}

TEST(AtomicFile, P22_AFreeNameIsFoundByAllWhoLookForOne) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "a.l.x", "mine");
  std::vector<std::thread> threads;
  std::vector<WrittenFile> written(8);
  for (size_t i = 0; i < written.size(); ++i) {
    threads.emplace_back([&, i] {
      AtomicFile file = AtomicFile::create(scratch / "a.l.x").value();
      throw_if_error(file.write(std::string(1, static_cast<char>('a' + i))));
      written[i] = file.commit_to_free_name().value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_text(scratch / "a.l.x"), "mine");
  EXPECT_EQ(scratch.num_entries(), 9U);
  EXPECT_TRUE(std::filesystem::exists(scratch / "a.l-9.x"));
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(read_text(written[i].path), std::string(1, static_cast<char>('a' + i)));
    written[i].remove();
  }
  EXPECT_EQ(scratch.num_entries(), 1U);
}

TEST(WrittenFile, P22_RemovesNoOtherFileOfItsName) {
  const ScratchDirectory scratch;
  AtomicFile file = AtomicFile::create(scratch / "a").value();
  const WrittenFile written = file.commit_to_free_name().value();
  throw_if_error(write_file(scratch / "a", "of another run"));
  written.remove();
  EXPECT_EQ(read_text(scratch / "a"), "of another run");
  WrittenFile().remove();
}

TEST(CheckWritable, R21_FindsWhatCannotBeWrittenBeforeTheRun) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "file", "");
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {scratch / "file/missing/a.mp4", scratch / "file/a.mp4", scratch.path(), scratch / "fifo",
        scratch / "", scratch / std::string(256, 'a'), std::filesystem::path(),
        std::filesystem::path("/proc/a.mp4"), std::filesystem::path("/dev/full")}) {
    const Status status = check_writable(path);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << path;
    EXPECT_THAT(status.message(), HasSubstr("expected")) << path;
  }
  EXPECT_EQ(scratch.num_entries(), 2U);
}

TEST(CheckWritable, R21_FindsADiskWithoutTheRoom) {
  const ScratchDirectory scratch;
  const test::SmallDisk disk(scratch / "disk");
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting needs privileges";
  EXPECT_TRUE(check_writable(disk / "a", 60'000).ok());
  const Status status = check_writable(disk / "a", 70'000);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("expected to find room for 70000 bytes, got: No space"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "disk"));
}

TEST(CheckWritable, LeavesNoTrace) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "there", "before");
  for (const auto& path : {scratch / "there", scratch / "new", scratch / std::string(255, 'a')}) {
    EXPECT_TRUE(check_writable(path).ok()) << path;
  }
  EXPECT_EQ(read_text(scratch / "there"), "before");
  EXPECT_EQ(scratch.num_entries(), 1U);
}

TEST(CheckWritable, ReadOnlyDirectory) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "locked");
  std::filesystem::permissions(scratch / "locked", std::filesystem::perms::owner_read);
  EXPECT_EQ(check_writable(scratch / "locked/a").code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace vsa::io
