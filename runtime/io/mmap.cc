// A file mapped read-only into memory.
#include "runtime/io/mmap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace vsa::io {
namespace {

Status cannot_read(const std::filesystem::path& path, const char* got) {
  return io_error(
      fmt::format("[read_file] {}: expected a readable regular file, got: {}", path.string(), got));
}

Result<MappedFile> cannot_read_errno(const std::filesystem::path& path) {
  return cannot_read(path, std::strerror(errno));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a fifo without a writer must not wait; regular files ignore it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_read_errno(path);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } const closer{fd};

  struct stat info {};
  if (::fstat(fd, &info) != 0) return cannot_read_errno(path);
  if (S_ISDIR(info.st_mode)) return cannot_read(path, "a directory");
  if (!S_ISREG(info.st_mode)) return cannot_read(path, "a device, fifo or socket");

  MappedFile file;
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return file;  // mmap refuses an empty range
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return cannot_read_errno(path);
  file.bytes_ = {static_cast<const std::byte*>(address), size};
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void release_pages(std::span<const std::byte> part) {
  // Only whole pages inside the part: the pages at its ends may hold a neighbour that is in use.
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t skipped = (page - reinterpret_cast<uintptr_t>(part.data()) % page) % page;
  if (part.size() <= skipped) return;
  const size_t released = (part.size() - skipped) / page * page;
  if (released == 0) return;
  ::madvise(const_cast<std::byte*>(part.data() + skipped), released, MADV_DONTNEED);
}

}  // namespace vsa::io
