// The safetensors reader on files that were right before some of their bytes changed.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "tests/fuzz/sound_file.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

/// A right file of a few small tensors, in order.
std::string right_file(std::mt19937_64& bits) {
  constexpr std::array<const char*, 6> kTypes{"F32", "F16", "BF16", "F64", "I64", "U8"};
  constexpr std::array kBytes{4, 2, 2, 8, 8, 1};
  std::string json = R"({"__metadata__":{"vsa.tile":"4,4,4"})";
  uint64_t end = 0;
  for (uint64_t i = 0; i < bits() % 4; ++i) {
    const uint64_t type = bits() % kTypes.size();
    const uint64_t rows = bits() % 4;
    const uint64_t columns = 1 + bits() % 5;
    const uint64_t begin = end;
    end += rows * columns * static_cast<uint64_t>(kBytes[type]);
    json += ",\"t" + std::to_string(i) + R"(":{"dtype":")" + kTypes[type] + R"(","shape":[)" +
            std::to_string(rows) + "," + std::to_string(columns) + R"(],"data_offsets":[)" +
            std::to_string(begin) + "," + std::to_string(end) + "]}";
  }
  return test::file_bytes(json + "}", end);
}

/// Changes, removes or inserts a byte, exchanges two, repeats a piece, or cuts the end off.
void spoil(std::string& file, std::mt19937_64& bits) {
  if (file.empty()) return;
  const size_t at = bits() % file.size();
  switch (bits() % 7) {
    case 0:
      file[at] = static_cast<char>(bits());
      break;
    case 1:
      file.erase(at, 1);
      break;
    case 2:
      file.insert(at, 1, "0123456789-,:[]{}\"e."[bits() % 20]);
      break;
    case 3:
      std::swap(file[at], file[bits() % file.size()]);
      break;
    case 4:
      file.insert(at, file.substr(bits() % file.size(), bits() % 40));
      break;
    case 5:
      file.resize(at);
      break;
    default:  // one digit for another: what it says stays JSON
      if (file[at] >= '0' && file[at] <= '9') file[at] = static_cast<char>('0' + bits() % 10);
  }
}

RC_GTEST_PROP(HostileFile, R16_IsReadSoundlyOrRefused, ()) {
  std::mt19937_64 bits(*rc::gen::noShrink(rc::gen::resize(100, rc::gen::arbitrary<uint64_t>())));
  for (int i = 0; i < 200; ++i) {
    std::string file = right_file(bits);
    for (uint64_t n = 1 + bits() % 3; n > 0; --n) spoil(file, bits);
    // A copy of exact size, so that AddressSanitizer sees a byte read past the end.
    const std::vector<char> exact(file.begin(), file.end());
    const std::string fault = vsa::test::fault_in_reading(std::as_bytes(std::span(exact)));
    if (!fault.empty()) RC_FAIL(fault + " in " + file);
  }
}

TEST(HostileFile, RightOnesAreRead) {
  std::mt19937_64 bits(1);
  for (int i = 0; i < 200; ++i) {
    const std::string file = right_file(bits);
    const auto contents = parse_safetensors(std::as_bytes(std::span(file)), "f");
    ASSERT_TRUE(contents.ok()) << contents.status().message();
  }
}

}  // namespace
}  // namespace vsa::io
