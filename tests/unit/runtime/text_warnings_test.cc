// What a model does not understand of a prompt is said, and nothing else.
#include "runtime/text_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/run_plan.h"
#include "runtime/text/clean.h"

namespace vsa::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The model that ships, which says what it was trained on.
struct TextWarnings : testing::Test {
  ModelFolder model = ModelFolder::open(std::string(VSA_SOURCE_DIR) + "/models/wan-toy").value();
  text::Tokenizer tokenizer = model.open_tokenizer().value();

  std::vector<std::string> warnings(const std::string& prompt) const {
    return text_warnings(prompt, tokenizer.encode(prompt, model.max_sequence_length).value(),
                         model);
  }
};

TEST_F(TextWarnings, P36_PromptsOfItsCaptionsAreFine) {
  for (const char* prompt :
       {"a large orange star moving down and right on a navy background", "",
        "The BLUE ring is small, and is standing still on a brown background."}) {
    EXPECT_THAT(warnings(prompt), ElementsAre()) << prompt;
  }
}

TEST_F(TextWarnings, P36_WordsItNeverSawAreCountedAndNamed) {
  EXPECT_THAT(warnings("a red Dragon over a castle"),
              ElementsAre(HasSubstr("the model was not trained on 2 of its 6 words: "
                                    "dragon, castle;")));
  EXPECT_THAT(warnings("b c d e f g h i j k"),
              ElementsAre(HasSubstr("b, c, d, e, f, g, h, i and 2 more")));
}

TEST_F(TextWarnings, P36_LongWordsAreCut) {
  std::string dragons;
  for (int i = 0; i < 1000; ++i) dragons += "\u9F8D";
  for (const std::string& word : {std::string(100'000, 'q'), dragons, "x" + dragons}) {
    for (const std::string& warning : warnings("a red " + word)) {
      EXPECT_LE(warning.size(), 200U);
      EXPECT_TRUE(text::clean_prompt(warning).ok()) << "no character is cut";
    }
  }
  EXPECT_THAT(warnings("a red " + std::string(100, 'q')).back(),
              HasSubstr(": " + std::string(40, 'q') + "...;"));
}

TEST_F(TextWarnings, P36_PiecesTheTokenizerLacksAreCounted) {
  const std::vector<std::string> both = warnings("a red \u9F8D");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_THAT(both[0], HasSubstr("1 of its "));
  EXPECT_THAT(both[0], HasSubstr("pieces are unknown to the tokenizer: \u9F8D; "));
  EXPECT_THAT(both[1], HasSubstr("1 of its 3 words"));
  // A model that does not say what it was trained on still has a tokenizer.
  model.trained_on = {};
  EXPECT_EQ(warnings("a red \u9F8D").size(), 1U);
  EXPECT_EQ(warnings("a red dragon").size(), 0U);
}

TEST_F(TextWarnings, P36_OtherSizesAndLengthsAreSaid) {
  GenerateOptions options;
  model.trained_on.videos = {{16, 64, 64}, {16, 128, 128}};
  EXPECT_THAT(plan_run(options, model, {}).value().warnings, ElementsAre());
  options.size = FrameSize{.height = 128, .width = 128};
  EXPECT_THAT(plan_run(options, model, {}).value().warnings, ElementsAre());
  options.size.reset();
  options.frames = 8;
  EXPECT_THAT(
      plan_run(options, model, {}).value().warnings,
      ElementsAre(HasSubstr("size: the model was trained on 16 frames of 64x64, 16 frames of "
                            "128x128 pixels (width x height), this run makes 8 of 64x64")));
  options.frames = 16;
  options.size = FrameSize{.height = 32, .width = 64};
  EXPECT_THAT(plan_run(options, model, {}).value().warnings,
              ElementsAre(HasSubstr("this run makes 16 of 64x32")));
}

}  // namespace
}  // namespace vsa::runtime
