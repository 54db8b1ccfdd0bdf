// SHA-256 of a file, by libavutil, which the video writers need anyway.
#include "runtime/io/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <new>

extern "C" {
#include <libavutil/mem.h>
#include <libavutil/sha.h>
}

#include "runtime/io/mmap.h"

namespace vsa::io {
namespace {

class Sha256 {
 public:
  Sha256() : state_(av_sha_alloc()) {
    if (state_ == nullptr) throw std::bad_alloc();
    av_sha_init(state_.get(), 256);
  }
  void update(std::span<const std::byte> bytes) {
    av_sha_update(state_.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  std::string hex() {
    std::array<uint8_t, 32> digest{};
    av_sha_final(state_.get(), digest.data());
    return fmt::format("{:02x}", fmt::join(digest, ""));
  }

 private:
  struct Free {
    void operator()(AVSHA* state) const { av_free(state); }
  };
  std::unique_ptr<AVSHA, Free> state_;
};

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

Result<std::string> sha256_of_file(const std::filesystem::path& path,
                                   const std::atomic<bool>* cancel) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  constexpr size_t kChunkBytes = size_t{16} << 20;
  Sha256 hash;
  for (auto rest = file->bytes(); !rest.empty();) {
    if (cancel != nullptr && *cancel) {
      return Status(StatusCode::kCancelled, "[sha256] " + path.string() + ": cancelled");
    }
    const auto chunk = rest.first(std::min(rest.size(), kChunkBytes));
    hash.update(chunk);
    release_pages(chunk);
    rest = rest.subspan(chunk.size());
  }
  return hash.hex();
}

}  // namespace vsa::io
