// `vsa inspect`: kept tiles and captured mass against a direct computation, and heat maps.
#include <cmath>

#include "runtime/video/image.h"
#include "runtime/video/read_video.h"
#include "tests/cli/attention_file.h"
#include "tests/cli/expect.h"
#include "tests/support/run.h"

namespace vsa::test {
namespace {

struct CliInspect : testing::Test {
  TemporaryDirectory dir;
  std::string in = dir.file("in.safetensors");
  const Dims dims{.batch = 1, .num_heads = 2, .seq_len = 210, .head_dim = 32};
  TestTensor q = normal_tensor(DType::kF32, dims, 1);
  TestTensor k = normal_tensor(DType::kF32, dims, 2);
  TestTensor v = normal_tensor(DType::kF32, dims, 3);
  TilePlan plan = TilePlan::grid({5, 6, 7}, {4, 4, 4}).value();

  CliInspect() { write_tensors(in, {{"q", q}, {"k", k}, {"v", v}}); }

  RunResult inspect(std::vector<std::string> more) const {
    std::vector<std::string> args = {"inspect", in, "--grid", "5,6,7"};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }
};

TEST_F(CliInspect, MassIsTheDenseSoftmaxInsideTheKeptTiles) {
  const RunResult result = inspect({"--topk", "3", "--json"});
  expect_success(result);
  const auto json = result.json();
  EXPECT_EQ(json["mass_of_all_tiles"], true);
  ASSERT_EQ(json["heads"].size(), 2U);
  const LutBuffer lut = run_attention({.backend = BackendId::kReference},
                                      {.q = q, .k = k, .v = v, .q_plan = plan, .kv_plan = plan},
                                      {.gate_coarse = Gate::zero(), .select = {.topk = 3}})
                            .lut;
  for (int64_t h = 0; h < 2; ++h) {
    double sum = 0.0;
    double least = 1.0;
    for (int64_t i = 0; i < 8; ++i) {
      const ConstLut table = lut.view();
      const int64_t row = h * 8 + i;
      for (const int32_t token : plan.tokens(i)) {
        double kept = 0.0;
        double all = 0.0;
        for (int32_t j = 0; j < 8; ++j) {
          const int32_t* tiles = table.index + row * table.dims.pitch;
          const bool is_kept =
              std::find(tiles, tiles + table.count[row], j) != tiles + table.count[row];
          for (const int32_t key : plan.tokens(j)) {
            double dot = 0.0;
            for (int64_t d = 0; d < 32; ++d) dot += q.at(0, h, token, d) * k.at(0, h, key, d);
            const double weight = std::exp(dot / std::sqrt(32.0));
            all += weight;
            if (is_kept) kept += weight;
          }
        }
        sum += kept / all;
        least = std::min(least, kept / all);
      }
    }
    const auto& head = json["heads"][static_cast<size_t>(h)];
    EXPECT_EQ(head["kept_share"], 3.0 / 8.0);
    // exp of a difference of two f32 logarithms near 5, each exact to about 1e-6.
    EXPECT_NEAR(head["mass_mean"].get<double>(), sum / 210.0, 1e-5);
    EXPECT_NEAR(head["mass_least"].get<double>(), least, 1e-5);
  }
}

TEST_F(CliInspect, AllTilesHoldAllTheMass) {
  const RunResult result = inspect({"--keep", "1", "--json", "--head", "1"});
  expect_success(result);
  ASSERT_EQ(result.json()["heads"].size(), 1U);
  EXPECT_EQ(result.json()["heads"][0]["head"], 1);
  EXPECT_NEAR(result.json()["heads"][0]["mass_mean"].get<double>(), 1.0, 1e-6);
}

TEST_F(CliInspect, SaysWhenTheMassIsSampled) {
  const RunResult json = inspect({"--topk", "3", "--mass-tiles", "2", "--json"});
  expect_success(json);
  EXPECT_EQ(json.json()["mass_tiles"], 2);
  EXPECT_EQ(json.json()["mass_of_all_tiles"], false);
  const RunResult text = inspect({"--topk", "3", "--mass-tiles", "2"});
  EXPECT_THAT(text.out, testing::HasSubstr("over 2 sampled query tiles"));
}

TEST_F(CliInspect, ListsTheTilesOfARow) {
  const RunResult result = inspect({"--topk", "3", "--row", "5", "--head", "0", "--json"});
  expect_success(result);
  const auto row = result.json()["rows"].at(0);
  EXPECT_EQ(row["row"], 5);
  ASSERT_EQ(row["kept"].size(), 3U);
  double probability = 0.0;
  for (const auto& tile : row["kept"]) {
    const int number = tile["tile"];
    EXPECT_EQ(tile["at"], (std::vector<int>{number / 4, number / 2 % 2, number % 2}));
    probability += tile["coarse_probability"].get<double>();
  }
  EXPECT_GT(probability, 3.0 / 8.0);  // the best three of eight
  EXPECT_LT(probability, 1.0);
}

TEST_F(CliInspect, WritesHeatMaps) {
  expect_success(inspect({"--topk", "3", "--row", "5", "--png", dir.file("maps")}));
  const std::vector<std::string> want = {
      "in.safetensors",         "maps/head00-kept.png", "maps/head00-row0005-looks.png",
      "maps/head00-scores.png", "maps/head01-kept.png", "maps/head01-row0005-looks.png",
      "maps/head01-scores.png"};
  EXPECT_EQ(dir.files(), want);
  for (size_t i = 1; i < want.size(); ++i) {
    EXPECT_EQ(read_file(dir.path() / want[i]).substr(0, 6), "\x89PNG\r\n") << want[i];
  }
}

TEST_F(CliInspect, HeatMapsShowEachTileInItsColour) {
  // 8 x 8 tiles, each 64 x 64 pixels, and at the colour bar's ends a column of 14.
  const auto pixels = [&](const char* keep, video::Rgb colour) {
    expect_success(inspect({"--keep", keep, "--head", "0", "--png", dir.file("maps")}));
    const video::Frames map = video::read_video(dir.path() / "maps/head00-kept.png").value().frames;
    EXPECT_GT(map.width, 512);  // room for numbers beside it
    int64_t count = 0;
    for (size_t i = 0; i < map.rgb.size(); i += 3) {
      if (std::equal(colour.begin(), colour.end(), map.rgb.begin() + static_cast<int64_t>(i))) {
        ++count;
      }
    }
    return count;
  };
  const video::Rgb dark{0, 0, 4};
  const video::Rgb bright{252, 253, 191};
  const int64_t bar = 14;
  EXPECT_EQ(pixels("0.375", bright), 8 * 3 * 64 * 64 + bar);
  EXPECT_EQ(pixels("0.375", dark), 8 * 5 * 64 * 64 + bar);
  EXPECT_EQ(pixels("1", bright), 8 * 8 * 64 * 64 + bar);  // all kept is bright
}

TEST_F(CliInspect, WrongOptions) {
  const auto fails = [&](int code, const std::string& text, std::vector<std::string> more) {
    expect_failure(inspect(std::move(more)), code, "vsa inspect", text);
  };
  fails(2, "--row: expected 0 to 7, got 8", {"--topk", "1", "--row", "8"});
  fails(2, "--row: expected a whole number of at least 0, got -1", {"--topk", "1", "--row", "-1"});
  fails(2, "--head: expected 0 to 1, got 2", {"--topk", "1", "--head", "2"});
  fails(2, "--batch-item: expected 0 to 0, got 1", {"--topk", "1", "--batch-item", "1"});
  fails(2, "--mass-tiles: expected a whole number of at least 1, got 0",
        {"--topk", "1", "--mass-tiles", "0"});
  fails(2, "exactly one of", {});
  fails(4, "--png /dev/null/maps", {"--topk", "1", "--png", "/dev/null/maps"});
}

TEST_F(CliInspect, ADtypeThatTheBackendLacksNamesTheTensorOfTheFile) {
  write_tensors(in, {{"q", q.as(DType::kF64)}, {"k", k.as(DType::kF64)}, {"v", v.as(DType::kF64)}});
  const RunResult result = inspect({"--topk", "3"});
  expect_failure(result, 3, "vsa inspect", "x: expected f32|bf16|f16");
  EXPECT_THAT(result.err, testing::HasSubstr("got f64 [1,1,210,32]; the reference backend takes"));
  EXPECT_THAT(result.err, testing::HasSubstr("\nhint: x is q of the file\n"));
  EXPECT_EQ(inspect({"--topk", "3", "--backend", "reference"}).exit_code, 0);
}

}  // namespace
}  // namespace vsa::test
