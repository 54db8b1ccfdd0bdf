// The safetensors writer: what it writes can be read, is laid out as promised, and is all there.
#include "runtime/io/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using test::read_text;
using test::ScratchDirectory;

constexpr auto kAllTypes = {
    StorageType::kBool,   StorageType::kU8,     StorageType::kI8,  StorageType::kF8E4M3,
    StorageType::kF8E5M2, StorageType::kF8E8M0, StorageType::kU16, StorageType::kI16,
    StorageType::kF16,    StorageType::kBF16,   StorageType::kU32, StorageType::kI32,
    StorageType::kF32,    StorageType::kU64,    StorageType::kI64, StorageType::kF64};

struct Owned {
  StorageType type;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  TensorView view() const { return {type, shape, std::as_bytes(std::span(bytes))}; }
};

Owned arbitrary_tensor() {
  const auto type = *rc::gen::elementOf(std::vector<StorageType>(kAllTypes));
  const auto shape = *rc::gen::resize(
      4, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 5)));
  int64_t bytes = size_bytes(type);
  for (const int64_t extent : shape) bytes *= extent;
  return {type, shape,
          *rc::gen::container<std::vector<uint8_t>>(static_cast<size_t>(bytes),
                                                    rc::gen::arbitrary<uint8_t>())};
}

/// Any Unicode text but that of "__metadata__": code points up to U+FFFF without surrogates.
std::string arbitrary_name() {
  std::string name;
  for (const uint32_t c : *rc::gen::container<std::vector<uint32_t>>(rc::gen::oneOf(
           rc::gen::inRange<uint32_t>(0, 0x80), rc::gen::inRange<uint32_t>(0x80, 0xD800)))) {
    if (c < 0x80) {
      name += static_cast<char>(c);
    } else if (c < 0x800) {
      name += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    } else {
      name += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
               static_cast<char>(0x80 | (c & 0x3F))};
    }
  }
  return name;
}

TEST(SafetensorsWriter, RoundTripsAnything) {
  const ScratchDirectory scratch;
  const auto path = scratch / "x.safetensors";
  EXPECT_TRUE(rc::check([&] {
    std::map<std::string, Owned> owned;
    const int count = *rc::gen::inRange(0, 6);
    for (int i = 0; i < count; ++i) owned.insert_or_assign(arbitrary_name(), arbitrary_tensor());
    Metadata metadata;
    const int pairs = *rc::gen::inRange(0, 3);
    for (int i = 0; i < pairs; ++i) metadata.emplace(arbitrary_name(), arbitrary_name());
    TensorMap tensors;
    for (const auto& [name, tensor] : owned) tensors.emplace(name, tensor.view());

    throw_if_error(write_safetensors(path, tensors, metadata));
    const SafetensorsFile file = SafetensorsFile::open(path).value();
    RC_ASSERT(file.metadata() == metadata);
    RC_ASSERT(file.tensors().size() == owned.size());
    for (const auto& [name, tensor] : owned) {
      const TensorView* read = file.find(name);
      RC_ASSERT(read != nullptr);
      RC_ASSERT(read->type == tensor.type);
      RC_ASSERT(read->shape == tensor.shape);
      RC_ASSERT(read->bytes.size() == tensor.bytes.size());
      RC_ASSERT(std::equal(read->bytes.begin(), read->bytes.end(), tensor.view().bytes.begin()));
      RC_ASSERT(read->is_aligned());
    }
  }));
}

TEST(SafetensorsWriter, OneFlippedBitNeverCrashesTheReader) {
  const ScratchDirectory scratch;
  const auto path = scratch / "x.safetensors";
  const std::vector<float> data(6, 1.0F);
  const TensorView view{StorageType::kF32, {2, 3}, std::as_bytes(std::span(data))};
  throw_if_error(write_safetensors(path, {{"a", view}, {"b", view}}, {{"key", "value"}}));
  const std::string good = read_text(path);
  EXPECT_TRUE(rc::check([&] {
    std::string bad = good;
    const size_t bit = *rc::gen::inRange<size_t>(0, good.size() * 8);
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    const auto read = parse_safetensors(std::as_bytes(std::span(bad)), "x");
    if (!read.ok()) {
      RC_ASSERT(read.status().code() == StatusCode::kIoError);
      return;
    }
    for (const auto& [name, tensor] : read->tensors) {
      const auto all = std::as_bytes(std::span(bad));
      RC_ASSERT(tensor.bytes.data() >= all.data());
      RC_ASSERT(tensor.bytes.data() + tensor.bytes.size() <= all.data() + all.size());
    }
  }));
}

TEST(SafetensorsWriter, LaysOutByElementSizeThenName) {
  const ScratchDirectory scratch;
  const auto path = scratch / "x.safetensors";
  const std::vector<uint8_t> bytes(8);
  const auto view = [&bytes](StorageType type) {
    return TensorView{type, {8 / size_bytes(type)}, std::as_bytes(std::span(bytes))};
  };
  throw_if_error(write_safetensors(path, {{"a", view(StorageType::kU8)},
                                          {"b", view(StorageType::kF32)},
                                          {"c", view(StorageType::kF64)},
                                          {"d", view(StorageType::kF32)}}));
  const SafetensorsFile file = SafetensorsFile::open(path).value();
  const std::byte* start = file.find("c")->bytes.data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 64, 0U);
  EXPECT_EQ(file.find("b")->bytes.data() - start, 8);
  EXPECT_EQ(file.find("d")->bytes.data() - start, 16);
  EXPECT_EQ(file.find("a")->bytes.data() - start, 24);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST(SafetensorsWriter, RefusesWhatTheReaderWould) {
  const ScratchDirectory scratch;
  const auto path = scratch / "x.safetensors";
  const std::vector<float> data(6);
  const auto bytes = std::as_bytes(std::span(data));
  const auto code = [&](const std::string& name, std::vector<int64_t> shape, Metadata metadata) {
    return write_safetensors(path, {{name, {StorageType::kF32, std::move(shape), bytes}}}, metadata)
        .code();
  };
  EXPECT_EQ(code("w", {2, 3}, {}), StatusCode::kOk);
  std::filesystem::remove(path);
  EXPECT_EQ(code("w", {2, 4}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("w", {-2, -3}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("\xff", {2, 3}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("w", {2, 3}, {{"k", "\xff"}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("__metadata__", {2, 3}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(scratch.num_entries(), 0U);
}

}  // namespace
}  // namespace vsa::io
