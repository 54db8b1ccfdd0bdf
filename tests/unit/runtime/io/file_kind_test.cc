// Files that are not what their names say: messages name what they look like and what to do.
#include "runtime/io/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/json_fields.h"
#include "runtime/text/tokenizer.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

/// Contents of files of other kinds, and a word that their description must hold.
std::vector<std::pair<std::string, std::string>> other_kinds() {
  const std::string rest(600, 'x');
  return {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 134\n", "git lfs pull"},
      {"<!DOCTYPE html>\n<html><head>" + rest, "a web page"},
      {"\xEF\xBB\xBF\n  <HTML>" + rest, "a web page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "an XML text"},
      {"Entry not found and nothing else", "a text"},
      {"\0\0\0\x20"s + "ftypisom\0\0\2\0"s + rest, "an MP4 video"},
      {"PK\x03\x04\0\0"s + rest, "convert it to safetensors"},
      {"\x80\x02}q\0X"s + rest, "a Python pickle"},
      {"\x80\x04\x95\x10\0"s + rest, "a Python pickle"},
      {"GGUF\x03\0\0\0"s + rest, "GGUF"},
      {"YUV4MPEG2 W16 H16 F8:1 C444\nFRAME\n\x80\x81"s + rest, "a y4m video"},
      {"OggS\0\2"s + rest, "an Ogg file"},
      {"PAR1\x15\x04"s + rest, "a Parquet table"},
      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"s + rest, "of another kind"},
      {"\x1f\x8b\x08\0"s + rest, "gzip"},
      {"", "an empty file"},
      {std::string(600, '\0'), "unfinished download"},
  };
}

struct FileKind : testing::Test {
  test::ScratchDirectory folder;

  std::string write(const std::string& name, const std::string& content) const {
    test::write_text(folder / name, content);
    return (folder / name).string();
  }
};

TEST_F(FileKind, P26_AsWeights) {
  auto kinds = other_kinds();
  kinds.emplace_back(R"({"error": "Repository not found", "more": "text"})", "a JSON text");
  for (const auto& [content, word] : kinds) {
    const std::string path = write("model.safetensors", content);
    const Status status = Checkpoint::open(path).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_THAT(status.message(), HasSubstr(path + ": expected a safetensors file, got "));
    EXPECT_THAT(status.message(), HasSubstr(word));
  }
}

TEST_F(FileKind, P26_AsTokenizer) {
  auto kinds = other_kinds();
  kinds.emplace_back(R"({"version": "1.0", "truncation": null})", "a JSON text");
  kinds.emplace_back("\x0a\x07\x0a\x03<", "damaged or of another kind");
  for (const auto& [content, word] : kinds) {
    const std::string path = write("spiece.model", content);
    const Status status = text::Tokenizer::load(path).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_THAT(status.message(), HasSubstr(path + ": expected a SentencePiece model, got "));
    EXPECT_THAT(status.message(), HasSubstr(word));
    EXPECT_THAT(status.message(), testing::Not(HasSubstr(".cc")));  // a line of another's source
  }
}

TEST_F(FileKind, P26_AsConfiguration) {
  for (const auto& [content, word] : other_kinds()) {
    const Status status = runtime::read_json_object(write("config.json", content)).status();
    EXPECT_THAT(status.message(), HasSubstr("config.json: expected a JSON object, got "));
    EXPECT_THAT(status.message(), HasSubstr(word));
  }
  EXPECT_THAT(
      runtime::read_json_object(write("config.json", "{\"a\": 1, \"b\"")).status().message(),
      HasSubstr("JSON with a fault at byte "));
  EXPECT_THAT(runtime::read_json_object(write("config.json", "[1]")).status().message(),
              HasSubstr("got array"));
}

TEST_F(FileKind, P26_AsIndex) {
  for (const auto& [content, word] : other_kinds()) {
    const std::string path = write("model.safetensors.index.json", content);
    const std::string message = Checkpoint::open(path).status().message();
    EXPECT_THAT(message, HasSubstr("model.safetensors.index.json: "));
    EXPECT_THAT(message, HasSubstr(word));
  }
}

TEST_F(FileKind, P26_TruncatedWeightsAreNotTakenForAnotherKind) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  const std::string whole = test::file_bytes(header, 16);
  for (const size_t size : {size_t{5}, size_t{20}, whole.size() - 3}) {
    const std::string path = write("model.safetensors", whole.substr(0, size));
    const std::string message = Checkpoint::open(path).status().message();
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("at least 8 bytes"),
                                        HasSubstr("that the file has"), HasSubstr("data_offsets")))
        << size;
  }
}

}  // namespace
}  // namespace vsa::io
