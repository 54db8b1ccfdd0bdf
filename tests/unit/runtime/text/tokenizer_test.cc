// The tokenizer on the golden model's 50 pieces.
#include "runtime/text/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/unit/runtime/io/files.h"

namespace vsa::text {
namespace {

Tokenizer golden() {
  return Tokenizer::load(std::filesystem::path(VSA_SOURCE_DIR) /
                         "tests/golden/wan-tiny/tokenizer/spiece.model")
      .value();
}

TEST(TokenizerModel, EmptyPromptIsJustTheEnd) {
  EXPECT_EQ(golden().encode("", 32).value().ids, std::vector<int32_t>{1});
  EXPECT_EQ(golden().encode("  \n", 32).value().ids, std::vector<int32_t>{1});
}

TEST(TokenizerModel, CleansBeforeItEncodes) {
  EXPECT_EQ(golden().encode(" a  small\tred star ", 32).value().ids,
            golden().encode("a small red star", 32).value().ids);
}

TEST(TokenizerModel, TooLongKeepsTheFrontAndTheEnd) {
  std::string words;
  for (int i = 0; i < 600; ++i) words += "star ";
  const auto [ids, num_dropped, unknown] = golden().encode(words, 32).value();
  ASSERT_EQ(ids.size(), 32U);
  EXPECT_EQ(num_dropped, std::ssize(golden().encode(words, 10000).value().ids) - 32);
  EXPECT_EQ(golden().encode(words, 10000).value().num_dropped, 0);
  EXPECT_EQ(ids.back(), 1);
  const std::vector<int32_t> front = golden().encode("star star star", 32).value().ids;
  EXPECT_TRUE(std::equal(front.begin(), front.begin() + 3, ids.begin()));
  EXPECT_EQ(golden().encode("star", 1).value().ids, std::vector<int32_t>{1});
}

TEST(TokenizerModel, UnknownCharactersAreIdsOfTheVocabulary) {
  const Tokenizer tokenizer = golden();
  const std::vector<int32_t> ids = tokenizer.encode("\U0001F600 \uFF21 red", 32).value().ids;
  for (const int32_t id : ids) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, tokenizer.vocabulary_size());
  }
}

TEST(TokenizerModel, RefusesFilesThatAreNone) {
  const test::ScratchDirectory folder;
  EXPECT_EQ(Tokenizer::load(folder / "none").status().code(), StatusCode::kIoError);
  EXPECT_EQ(Tokenizer::load(folder.path()).status().code(), StatusCode::kIoError);
  test::write_text(folder / "text", "not a model");
  const Status status = Tokenizer::load(folder / "text").status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("expected a SentencePiece model"), std::string::npos);
}

TEST(TokenizerModel, RefusesNoRoomForTheEnd) {
  EXPECT_EQ(golden().encode("a", 0).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vsa::text
