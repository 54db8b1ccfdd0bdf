// The safetensors reader: every way a header can lie is refused, and what is right is read.
#include "runtime/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using test::file_bytes;
using testing::HasSubstr;

Result<SafetensorsContents> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string file = file_bytes(
      R"({"__metadata__":{"vsa.tile":"4,4,4"},"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"F64","shape":[0,7],"data_offsets":[16,16]}}  )",
      16);
  const auto contents = parse(file).value();
  ASSERT_EQ(contents.tensors.size(), 3U);
  EXPECT_EQ(to_string(contents.tensors.at("b")), "F16 [2,3]");
  EXPECT_EQ(contents.tensors.at("b").num_elements(), 6);
  EXPECT_EQ(to_string(contents.tensors.at("a")), "I32 []");
  EXPECT_EQ(contents.tensors.at("a").bytes.data() + 4, contents.tensors.at("b").bytes.data());
  EXPECT_EQ(contents.tensors.at("e").num_elements(), 0);
  EXPECT_EQ(contents.metadata, (Metadata{{"vsa.tile", "4,4,4"}}));
}

struct BadHeader {
  std::string id;
  std::string json;
  size_t data_bytes;
  std::string expected;  // part of the message
};

class BadHeaders : public testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaders, R16_Refused) {
  const auto result = parse(file_bytes(GetParam().json, GetParam().data_bytes));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kIoError);
  EXPECT_THAT(result.status().message(), HasSubstr("[read_safetensors] x.safetensors: "));
  EXPECT_THAT(result.status().message(), HasSubstr(GetParam().expected));
  EXPECT_EQ(result.status().message().find('\n'), std::string::npos);
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string two(const std::string& first, const std::string& second) {
  return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, BadHeaders,
    testing::Values(
        BadHeader{"Empty", "", 0, "header: expected '{'"},
        BadHeader{"LeadingSpace", " {}", 0, "header: expected '{'"},
        BadHeader{"Array", "[]", 0, "header: expected '{'"},
        BadHeader{"CutShort", R"({"w":{"dtype":"U8")", 0, "syntax error at byte"},
        BadHeader{"TrailingText", "{} x", 0, "syntax error at byte"},
        BadHeader{"SecondObject", "{}{}", 0, "syntax error at byte"},
        BadHeader{"Nul", std::string("{}\0{", 4), 0, "got a NUL byte"},
        BadHeader{"NotUtf8", "{\"\xff\":{}}", 0, "syntax error at byte"},
        BadHeader{"Comment", "{/**/}", 0, "syntax error at byte"},
        BadHeader{"TensorNotObject", R"({"w":3})", 0, "\"w\": expected an object, got 3"},
        BadHeader{"TensorNull", R"({"w":null})", 0, "\"w\": expected an object, got null"},
        BadHeader{"TensorArray", R"({"w":[]})", 0, "\"w\": expected an object, got an array"},
        BadHeader{"UnknownKey", R"({"w":{"dtype":"U8","stride":[1]}})", 0,
                  "\"w\": expected dtype, shape and data_offsets, got \"stride\""},
        BadHeader{"NewlineInName", R"({"w\n":3})", 0, "\"w\\n\": expected an object"},
        BadHeader{"LongName", "{\"" + std::string(5000, 'w') + "\":3}", 0,
                  "\"...: expected an object"},
        BadHeader{"MissingDtype", R"({"w":{"shape":[],"data_offsets":[0,0]}})", 0,
                  "\"w\" dtype: expected a value, got none"},
        BadHeader{"MissingShape", R"({"w":{"dtype":"U8","data_offsets":[0,0]}})", 0,
                  "\"w\" shape: expected a value, got none"},
        BadHeader{"MissingOffsets", R"({"w":{"dtype":"U8","shape":[]}})", 0,
                  "\"w\" data_offsets: expected a value, got none"},
        BadHeader{"DuplicateTensor",
                  R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}})", 0,
                  "\"w\": expected each key once"},
        BadHeader{"DuplicateField", R"({"w":{"dtype":"U8","dtype":"U8"}})", 0,
                  "expected each key once, got \"dtype\" twice"},
        BadHeader{"DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", 0,
                  "\"__metadata__\": expected each key once"},
        BadHeader{"DuplicateMetadataKey", R"({"__metadata__":{"k":"1","k":"2"}})", 0,
                  "got \"k\" twice"},
        BadHeader{"MetadataNumber", R"({"__metadata__":{"k":1}})", 0,
                  "\"__metadata__\": expected a string, got 1"},
        BadHeader{"MetadataNested", R"({"__metadata__":{"k":{}}})", 0,
                  "expected a string, got an object"},
        BadHeader{"MetadataNotObject", R"({"__metadata__":"x"})", 0,
                  "\"__metadata__\": expected an object"},
        BadHeader{"DeepNesting", "{\"w\":" + std::string(100000, '['), 0,
                  "\"w\": expected an object, got an array"},
        BadHeader{"ScalarShape", tensor("U8", "4", "[0,4]"), 4,
                  "\"w\" shape: expected an array, got 4"},
        BadHeader{"NumberDtype", R"({"w":{"dtype":8,"shape":[],"data_offsets":[0,1]}})", 1,
                  "\"w\" dtype: expected a string, got 8"},
        BadHeader{"StringShape", tensor("U8", R"(["4"])", "[0,4]"), 4,
                  "\"w\" shape: expected integers"},
        BadHeader{"NestedShape", tensor("U8", "[[4]]", "[0,4]"), 4,
                  "\"w\" shape: expected integers"}),
    [](const auto& chosen) { return chosen.param.id; });

INSTANTIATE_TEST_SUITE_P(
    Values, BadHeaders,
    testing::Values(
        BadHeader{"UnknownDtype", tensor("F12", "[4]", "[0,4]"), 4,
                  "\"w\" dtype: expected a known element type, got \"F12\""},
        BadHeader{"LowerCaseDtype", tensor("f32", "[1]", "[0,4]"), 4, "got \"f32\""},
        BadHeader{"NegativeExtent", tensor("U8", "[-4]", "[0,4]"), 4,
                  "\"w\" shape: expected integers of at least 0, got -4"},
        BadHeader{"FractionalExtent", tensor("U8", "[4.0]", "[0,4]"), 4,
                  "\"w\" shape: expected integers of at least 0, got 4.0"},
        BadHeader{"ExponentExtent", tensor("U8", "[4e0]", "[0,4]"), 4, "got 4e0"},
        BadHeader{"HugeExtent", tensor("U8", "[9223372036854775808]", "[0,4]"), 4,
                  "\"w\" shape: expected less than 2^63"},
        BadHeader{"BeyondU64", tensor("U8", "[18446744073709551620]", "[0,4]"), 4,
                  "\"w\" shape: expected integers"},
        BadHeader{"ProductWraps", tensor("U8", "[4294967296,4294967296,4]", "[0,0]"), 0,
                  "\"w\" shape: expected fewer than 2^63 bytes"},
        BadHeader{"ProductWrapsTo4", tensor("U8", "[4611686018427387905,4]", "[0,4]"), 4,
                  "\"w\" shape: expected fewer than 2^63 bytes"},
        BadHeader{"BytesWrap", tensor("F64", "[2305843009213693952]", "[0,0]"), 0,
                  "\"w\" shape: expected fewer than 2^63 bytes"},
        BadHeader{"ZeroHidesWrap", tensor("U8", "[0,4294967296,4294967296]", "[0,0]"), 0,
                  "\"w\" shape: expected fewer than 2^63 bytes"},
        BadHeader{"RankTooHigh", tensor("U8", "[1" + repeated(",1", 64) + "]", "[0,1]"), 1,
                  "\"w\" shape: expected at most 64 numbers"},
        BadHeader{"OneOffset", tensor("U8", "[4]", "[4]"), 4,
                  "\"w\" data_offsets: expected [begin, end], got 1 numbers"},
        BadHeader{"ThreeOffsets", tensor("U8", "[4]", "[0,4,4]"), 4, "got 3 numbers"},
        BadHeader{"NegativeOffset", tensor("U8", "[4]", "[-4,0]"), 4,
                  "\"w\" data_offsets: expected integers of at least 0"},
        BadHeader{"Reversed", tensor("U8", "[4]", "[4,0]"), 4,
                  "\"w\" data_offsets: expected begin <= end <= 4, got [4,0]"},
        BadHeader{"PastTheEnd", tensor("U8", "[8]", "[0,8]"), 4,
                  "\"w\" data_offsets: expected begin <= end <= 4, got [0,8]"},
        BadHeader{"SpanTooShort", tensor("F32", "[4]", "[0,4]"), 4,
                  "\"w\" data_offsets: expected 16 bytes for F32 [4], got 4"},
        BadHeader{"SpanTooLong", tensor("F16", "[1]", "[0,4]"), 4,
                  "expected 2 bytes for F16 [1], got 4"},
        BadHeader{"Overlap", two("[0,4]", "[2,6]"), 6,
                  "\"b\" data_offsets: expected to begin at 4"},
        BadHeader{"SameRange", two("[0,4]", "[0,4]"), 4, "expected to begin at 4"},
        BadHeader{"Hole", two("[0,4]", "[5,9]"), 9, "\"b\" data_offsets: expected to begin at 4"},
        BadHeader{"HoleAtStart", tensor("U8", "[4]", "[1,5]"), 5, "expected to begin at 0"},
        BadHeader{"BytesLeftOver", tensor("U8", "[4]", "[0,4]"), 5,
                  "data: expected 4 bytes after the header, got 5"},
        BadHeader{"DataWithoutTensors", "{}", 1, "data: expected 0 bytes after the header, got 1"},
        BadHeader{
            "EmptyInsideAnother",
            R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
            4, "\"e\" data_offsets: expected to begin at 4"}),
    [](const auto& chosen) { return chosen.param.id; });

TEST(Safetensors, R16_LengthOfHeader) {
  for (const auto& [length, expected] : std::vector<std::pair<uint64_t, std::string>>{
           {3, "header length: expected at most the 2 bytes"},
           {100'000'001, "header length: expected at most 100000000"},
           {UINT64_MAX, "header length: expected at most 100000000"}}) {
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    const Status status = parse(file + "{}").status();
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_THAT(status.message(), HasSubstr(expected));
  }
}

TEST(Safetensors, R16_EveryTruncationIsRefused) {
  const std::string file = file_bytes(tensor("F32", "[2]", "[0,8]"), 8);
  ASSERT_TRUE(parse(file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_EQ(parse(file.substr(0, size)).status().code(), StatusCode::kIoError) << size;
  }
}

TEST(Safetensors, TellsWhetherATensorIsAligned) {
  const std::string file = file_bytes(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
      5);
  const auto contents = parse(file).value();
  const auto address = reinterpret_cast<uintptr_t>(contents.tensors.at("w").bytes.data());
  EXPECT_EQ(contents.tensors.at("w").is_aligned(), address % 4 == 0);
  EXPECT_TRUE(contents.tensors.at("a").is_aligned());
}

float f16(uint16_t bits) {
  float out = 0;
  throw_if_error(
      copy_as_f32({StorageType::kF16, {}, std::as_bytes(std::span(&bits, 1))}, {&out, 1}));
  return out;
}

TEST(CopyAsF32, EveryHalf) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float got = f16(static_cast<uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = static_cast<double>(bits & 1023) / 1024;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      const double magnitude = exponent == 31  ? INFINITY
                               : exponent == 0 ? std::ldexp(fraction, -14)
                                               : std::ldexp(1 + fraction, exponent - 15);
      EXPECT_EQ(got, sign * magnitude) << bits;
      EXPECT_EQ(std::signbit(got), sign < 0) << bits;
    }
  }
}

TEST(CopyAsF32, OtherTypes) {
  const std::vector<uint16_t> bf16{0x3F80, 0xC000, 0x0001};
  std::vector<float> out(3);
  throw_if_error(copy_as_f32({StorageType::kBF16, {3}, std::as_bytes(std::span(bf16))}, out));
  EXPECT_EQ(out, (std::vector<float>{1, -2, 0x1p-133F}));
  const std::vector<double> f64{1.5, -0.1, 1e300};
  throw_if_error(copy_as_f32({StorageType::kF64, {3}, std::as_bytes(std::span(f64))}, out));
  EXPECT_EQ(out, (std::vector<float>{1.5F, -0.1F, INFINITY}));
  // At an odd address, as a file may have it.
  std::vector<std::byte> moved(13);
  const std::vector<float> f32{1, 2, 3};
  std::memcpy(moved.data() + 1, f32.data(), 12);
  throw_if_error(copy_as_f32({StorageType::kF32, {3}, std::span(moved).subspan(1)}, out));
  EXPECT_EQ(out, f32);
}

TEST(CopyAsF32, RefusesWrongSizeAndType) {
  const std::vector<float> f32{1, 2, 3};
  std::vector<float> out(2);
  const TensorView view{StorageType::kF32, {3}, std::as_bytes(std::span(f32))};
  EXPECT_EQ(copy_as_f32(view, out).code(), StatusCode::kInvalidArgument);
  out.resize(3);
  EXPECT_EQ(copy_as_f32({StorageType::kI32, {3}, view.bytes}, out).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vsa::io
