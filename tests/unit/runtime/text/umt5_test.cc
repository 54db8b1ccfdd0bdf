// The text encoder: position buckets, padding, layers of their own, bad configurations.
#include "runtime/text/umt5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/relative_bucket.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::text {
namespace {

TEST(Umt5Buckets, AreInRangeForEveryConfigThatIsAccepted) {
  for (const int64_t buckets : {4, 5, 7, 32, 64}) {
    for (const int64_t farthest : {buckets / 4 + 1, buckets, int64_t{128}, int64_t{1} << 31}) {
      for (const int64_t relative : {-100000, -513, -9, -1, 0, 1, 9, 513, 100000}) {
        const int64_t bucket = relative_bucket(relative, buckets, farthest);
        EXPECT_GE(bucket, 0);
        EXPECT_LT(bucket, buckets) << relative << ' ' << buckets << ' ' << farthest;
      }
    }
  }
}

TEST(Umt5Buckets, NearOnesAreExactFarOnesLogarithmic) {
  const auto bucket = [](int64_t relative) { return relative_bucket(relative, 32, 128); };
  // Keys before the query: 0 to 15; after it: 16 to 31.
  for (int64_t d = 0; d < 8; ++d) EXPECT_EQ(bucket(-d), d);
  for (int64_t d = 1; d < 8; ++d) EXPECT_EQ(bucket(d), 16 + d);
  // 8 + floor(8 ln(d / 8) / ln 16): each edge and the one before it. At 16, 32 and 64 f64 and f32
  // logarithms may fall on different sides; f32 gives the upper bucket.
  const std::pair<int64_t, int64_t> edges[] = {
      {8, 8},   {11, 8},  {12, 9},  {15, 9},  {16, 10}, {22, 10}, {23, 11},  {31, 11},  {32, 12},
      {45, 12}, {46, 13}, {63, 13}, {64, 14}, {90, 14}, {91, 15}, {128, 15}, {5000, 15}};
  for (const auto& [distance, want] : edges) {
    EXPECT_EQ(bucket(-distance), want) << distance;
    EXPECT_EQ(bucket(distance), 16 + want) << distance;
  }
}

class Umt5 : public testing::Test {
 protected:
  TextEmbedding encode(const test::TinyModel& model, const std::vector<int32_t>& ids,
                       int64_t rows = 12) {
    return load(model).encode(ids, rows).value();
  }

  Umt5Encoder load(const test::TinyModel& model) {
    model.write(folder_.path());
    checkpoint_ = io::Checkpoint::open(folder_ / "text_encoder").value();
    std::vector<std::string> ignored;
    const Umt5Config config = parse_umt5_config(model.text_config, "c", ignored).value();
    nn::LoadSummary summary;
    Umt5Weights weights = find_umt5_weights(config, checkpoint_, summary).value();
    auto steps = cpu::make_steps(weights).value();
    return {std::move(weights), std::move(steps)};
  }

  test::ScratchDirectory folder_;
  io::Checkpoint checkpoint_;
};

TEST_F(Umt5, R10_RowsOfPaddingAreZeroAndChangeNothing) {
  const test::TinyModel model;
  const std::vector<int32_t> ids{5, 9, 1};
  const TextEmbedding padded = encode(model, ids, 12);
  const TextEmbedding bare = encode(model, ids, 3);
  EXPECT_EQ(padded.num_valid, 3);
  EXPECT_EQ(padded.num_rows, 12);
  for (int64_t i = 0; i < 3 * 24; ++i) EXPECT_EQ(padded.rows.data()[i], bare.rows.data()[i]);
  for (int64_t i = 3 * 24; i < 12 * 24; ++i) EXPECT_EQ(padded.rows.data()[i], 0.0F);
}

TEST_F(Umt5, R11_EachLayerHasItsOwnTable) {
  test::TinyModel model;
  const std::vector<int32_t> ids{5, 9, 11, 1};
  const TextEmbedding before = encode(model, ids);
  const std::string name = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight";
  model.text_encoder[name] =
      model.text_encoder["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"];
  const TextEmbedding after = encode(model, ids);
  EXPECT_FALSE(std::ranges::equal(before.rows.span(), after.rows.span()));
}

TEST_F(Umt5, W11_TheGeluIsOnTheFirstOfTheTwoBranches) {
  const test::TinyModel model;
  const std::vector<int32_t> ids{5, 9, 11, 1};
  const TextEmbedding before = encode(model, ids);
  // Two changes of sign cancel, unless one of them goes through the GELU.
  const auto negated = [&](const char* branch) {
    test::TinyModel other = model;
    for (const std::string part : {branch, "wo"}) {
      for (float& x :
           other.text_encoder.at("encoder.block.0.layer.1.DenseReluDense." + part + ".weight")
               .values) {
        x = -x;
      }
    }
    return encode(other, ids);
  };
  EXPECT_TRUE(std::ranges::equal(negated("wi_1").rows.span(), before.rows.span()));
  EXPECT_FALSE(std::ranges::equal(negated("wi_0").rows.span(), before.rows.span()));
}

TEST_F(Umt5, TheTableMayHaveItsOtherName) {
  test::TinyModel model;
  const std::vector<int32_t> ids{5, 9, 1};
  const TextEmbedding before = encode(model, ids);
  auto table = model.text_encoder.extract("shared.weight");
  table.key() = "encoder.embed_tokens.weight";
  model.text_encoder.insert(std::move(table));
  const TextEmbedding after = encode(model, ids);
  EXPECT_TRUE(std::ranges::equal(before.rows.span(), after.rows.span()));
}

TEST_F(Umt5, RefusesIdsOutsideTheVocabularyAndWrongCounts) {
  Umt5Encoder encoder = load(test::TinyModel());
  for (const std::vector<int32_t>& bad :
       {std::vector<int32_t>{50}, {3, -1}, {}, std::vector<int32_t>(13, 2)}) {
    EXPECT_EQ(encoder.encode(bad, 12).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(Umt5Config, ReadsChecksAndListsFields) {
  const nlohmann::json good = test::TinyModel().text_config;
  std::vector<std::string> ignored;
  EXPECT_EQ(parse_umt5_config(good, "c", ignored).value().d_ff, 40);
  EXPECT_TRUE(ignored.empty());
  nlohmann::json more = good;
  more["mystery"] = 1;
  EXPECT_TRUE(parse_umt5_config(more, "c", ignored).ok());
  EXPECT_EQ(ignored, std::vector<std::string>{"mystery"});

  nlohmann::json bad = good;
  bad.erase("d_kv");
  EXPECT_EQ(parse_umt5_config(bad, "c", ignored).status().message(),
            "[config] c: d_kv: expected an integer, got none");
  bad = good;
  bad["num_heads"] = -3;
  EXPECT_THAT(parse_umt5_config(bad, "c", ignored).status().message(),
              testing::HasSubstr("num_heads: expected an integer from 1"));
  bad = good;
  bad["relative_attention_num_buckets"] = 32;
  bad["relative_attention_max_distance"] = 8;  // the logarithm's base would be 1
  EXPECT_EQ(parse_umt5_config(bad, "c", ignored).status().message(),
            "[config] c: relative_attention_max_distance: expected more than 8, a quarter of "
            "relative_attention_num_buckets, got 8");
  bad["relative_attention_max_distance"] = 9;
  EXPECT_TRUE(parse_umt5_config(bad, "c", ignored).ok());
  bad = good;
  bad["feed_forward_proj"] = "relu";
  EXPECT_EQ(parse_umt5_config(bad, "c", ignored).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace vsa::text
