// Mapped files: what can be mapped, and that mappings outlive moves and unlinking.
#include "runtime/io/mmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/io/safetensors_writer.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using test::ScratchDirectory;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ReadsAndMoves) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "a", "hello");
  MappedFile first = MappedFile::open(scratch / "a").value();
  const std::byte* address = first.bytes().data();
  MappedFile second = std::move(first);
  EXPECT_EQ(second.bytes().data(), address);
  std::filesystem::remove(scratch / "a");
  EXPECT_EQ(text_of(second), "hello");
}

TEST(MappedFile, EmptyFile) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "a", "");
  EXPECT_TRUE(MappedFile::open(scratch / "a").value().bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  for (const auto& [path, got] : std::vector<std::pair<std::filesystem::path, std::string>>{
           {scratch / "missing", "No such file"},
           {scratch.path(), "a directory"},
           {scratch / "fifo", "a device, fifo or socket"},
           {"/dev/zero", "a device, fifo or socket"}}) {
    const Status status = MappedFile::open(path).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_THAT(status.message(), testing::HasSubstr(got));
  }
}

TEST(MappedFile, ReleasedPagesComeBack) {
  const ScratchDirectory scratch;
  const std::string text(100'000, 'x');
  test::write_text(scratch / "a", text);
  const MappedFile file = MappedFile::open(scratch / "a").value();
  EXPECT_EQ(text_of(file), text);
  release_pages(file.bytes());
  release_pages(file.bytes().subspan(5, 10));  // less than a page: nothing to drop
  release_pages({});
  EXPECT_EQ(text_of(file), text);
}

TEST(SafetensorsFile, OpensConcurrently) {
  const ScratchDirectory scratch;
  const std::vector<float> data(1000, 2.0F);
  throw_if_error(write_safetensors(
      scratch / "a", {{"w", {StorageType::kF32, {1000}, std::as_bytes(std::span(data))}}}));
  std::vector<std::thread> threads;
  std::vector<float> sums(8);
  for (float& sum : sums) {
    threads.emplace_back([&] {
      const SafetensorsFile file = SafetensorsFile::open(scratch / "a").value();
      std::vector<float> copy(1000);
      throw_if_error(copy_as_f32(*file.find("w"), copy));
      for (const float x : copy) sum += x;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums, std::vector<float>(8, 2000.0F));
}

TEST(SafetensorsFile, MessagesNameTheFile) {
  const ScratchDirectory scratch;
  test::write_text(scratch / "a.safetensors", "\x01\x02\x03\x04\x05");
  const Status status = SafetensorsFile::open(scratch / "a.safetensors").status();
  EXPECT_EQ(status.message(), "[read_safetensors] " + (scratch / "a.safetensors").string() +
                                  ": file size: expected at least 8 bytes, got 5");
  EXPECT_EQ(SafetensorsFile::open(scratch.path()).status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace vsa::io
