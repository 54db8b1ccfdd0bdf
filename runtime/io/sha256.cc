// SHA-256 of a file, by libcrypto, which uses the processor's instructions for it.
#include "runtime/io/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <new>

#include "runtime/io/mmap.h"

namespace vsa::io {
namespace {

class Sha256 {
 public:
  Sha256() : state_(EVP_MD_CTX_new()) {
    // Only a lack of memory can fail: the algorithm is part of every libcrypto.
    if (state_ == nullptr || EVP_DigestInit_ex(state_.get(), EVP_sha256(), nullptr) != 1) {
      throw std::bad_alloc();
    }
  }
  void update(std::span<const std::byte> bytes) {
    if (EVP_DigestUpdate(state_.get(), bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
  }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    if (EVP_DigestFinal_ex(state_.get(), digest.data(), nullptr) != 1) throw std::bad_alloc();
    return fmt::format("{:02x}", fmt::join(digest, ""));
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* state) const { EVP_MD_CTX_free(state); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> state_;
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
