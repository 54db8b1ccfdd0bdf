// SHA-256 against the published examples of FIPS 180-4.
#include "runtime/io/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

std::string of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, R16_OfAFile) {
  const test::ScratchDirectory scratch;
  // Longer than one chunk of reading.
  const std::string text((size_t{16} << 20) + 12345, 'x');
  test::write_text(scratch / "a", text);
  EXPECT_EQ(sha256_of_file(scratch / "a").value(), of(text));
  EXPECT_EQ(sha256_of_file(scratch / "b").status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace vsa::io
