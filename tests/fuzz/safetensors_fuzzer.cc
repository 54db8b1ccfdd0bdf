// libFuzzer: a safetensors file per input, or a header for which the frame is made.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/sound_file.h"

namespace {

/// First byte 0: the rest is the file. Else the rest is header text, and the first byte says how
/// many bytes of data follow it: finding the length of the header by chance would take too long.
std::vector<uint8_t> file_of(const uint8_t* data, size_t size) {
  if (size == 0) return {};
  if (data[0] == 0) return {data + 1, data + size};
  const uint64_t header_bytes = size - 1;
  std::vector<uint8_t> file(8);
  std::memcpy(file.data(), &header_bytes, 8);  // as in the file: little-endian
  file.insert(file.end(), data + 1, data + size);
  file.resize(file.size() + data[0] % 64);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> file = file_of(data, size);
  const std::string fault = vsa::test::fault_in_reading(std::as_bytes(std::span(file)));
  if (!fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return 0;
}
