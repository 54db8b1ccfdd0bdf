// `vsa generate` and `vsa decode` on a tiny random model.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "runtime/video/read_video.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliGenerate : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");

  CliGenerate() { TinyModel().write(model); }

  RunResult generate(const std::string& output, const Args& more = {},
                     const RunOptions& options = {}) const {
    Args args = {"generate", "--model", model, "--prompt", "a red ring", "-o", output};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args, options);
  }

  /// Files but for those of the model.
  Args files() const {
    Args all = dir.files();
    std::erase_if(all, [](const std::string& f) { return f.starts_with("model/"); });
    return all;
  }

  /// Bytes of a lossless video.
  std::string bytes_of(const Args& more) const {
    const std::string output = dir.file("bytes.y4m");
    const RunResult result = generate(output, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_file(output);
  }
};

TEST_F(CliGenerate, OneStepGivesEveryKindOfVideoUnderItsExactName) {
  for (const char* name : {"a.mp4", "a.gif", "a.y4m"}) {
    expect_success(generate(dir.file(name), {"--steps", "1", "--seed", "1", "--upscale", "2"}));
    const auto video = video::read_video(dir.file(name)).value();
    EXPECT_EQ(video.frames.num_frames, 8) << name;
    EXPECT_EQ(video.frames.height, 64) << name;
    EXPECT_EQ(video.frames.width, 64) << name;
  }
  expect_success(generate(dir.file("frames/%02d.png"), {"--steps", "1"}));
  Args want = {"a.gif", "a.mp4", "a.y4m"};
  for (int i = 0; i < 8; ++i) want.push_back("frames/0" + std::to_string(i) + ".png");
  EXPECT_EQ(files(), want);  // nothing else, not even latents
}

TEST_F(CliGenerate, R22_ANameThatSaysNoKindIsRefusedBeforeTheRun) {
  for (const char* name : {"v1.2", "noext", "a.avi", "frames/x.png", "a.mp4.txt"}) {
    expect_failure(generate(dir.file(name), {"--steps", "1"}), 2, "vsa generate", name);
  }
  EXPECT_EQ(files(), Args{});
}

TEST_F(CliGenerate, R24_TheSeedDecides) {
  const std::string one = bytes_of({"--steps", "2", "--seed", "1"});
  EXPECT_TRUE(bytes_of({"--steps", "2", "--seed", "1"}) == one);
  EXPECT_TRUE(bytes_of({"--steps", "2", "--seed", "1", "--threads", "1"}) == one);
  EXPECT_TRUE(bytes_of({"--steps", "2", "--seed", "2"}) != one);
  const RunResult random = generate(dir.file("r.y4m"), {"--steps", "2", "--json"});
  const int64_t seed = random.json()["seed"];
  EXPECT_GE(seed, 0);
  EXPECT_TRUE(bytes_of({"--steps", "2", "--seed", std::to_string(seed)}) ==
              read_file(dir.file("r.y4m")));
}

TEST_F(CliGenerate, JsonAndReportSayWhatRan) {
  const std::string report = dir.file("report.json");
  const RunResult result =
      generate(dir.file("a.y4m"), {"--steps", "2", "--topk", "1", "--dense-steps", "1", "--json",
                                   "--report", report, "--latents", dir.file("l.safetensors")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = result.json();
  EXPECT_EQ(json["output"], dir.file("a.y4m"));
  auto from_stdout = json;
  from_stdout.erase("output");
  EXPECT_EQ(nlohmann::json::parse(read_file(report)), from_stdout);
  ASSERT_EQ(json["step_reports"].size(), 2U);
  for (const auto& layer : json["step_reports"][0]["layers"]) {
    EXPECT_EQ(layer["route"], "dense");
    EXPECT_EQ(layer["kept_share"], 1.0);
  }
  for (const auto& layer : json["step_reports"][1]["layers"]) {
    EXPECT_EQ(layer["route"], "vsa");
    EXPECT_EQ(layer["kept_share"], 0.25);  // 1 of 4 tiles
  }
  EXPECT_EQ(json["seed"].is_number(), true);
  EXPECT_GT(json["files"].size(), 0U);
  EXPECT_EQ(files(), (Args{"a.y4m", "l.safetensors", "report.json"}));
}

TEST_F(CliGenerate, AllTilesEqualDense) {
  EXPECT_TRUE(bytes_of({"--steps", "2", "--seed", "1", "--topk", "4"}) ==
              bytes_of({"--steps", "2", "--seed", "1", "--attention", "dense"}));
}

TEST_F(CliGenerate, P32_SizesAreWidthByHeightWithEitherSeparator) {
  for (const char* size : {"16x24", "16*24", "16X24"}) {
    const RunResult result =
        generate(dir.file("a.y4m"), {"--steps", "1", "--size", size, "--frames", "4", "--seed", "1",
                                     "--upscale", "2", "--latents", dir.file("l")});
    expect_success(result);
    EXPECT_THAT(result.out, testing::HasSubstr("4 frames of 32x48 (width x height), 8 fps\n"));
    const auto video = video::read_video(dir.file("a.y4m")).value();
    EXPECT_EQ(video.frames.num_frames, 4);
    EXPECT_EQ(video.frames.height, 48);
    EXPECT_EQ(video.frames.width, 32);
    EXPECT_THAT(run_vsa({"decode", dir.file("l"), "-o", dir.file("b.y4m")}).out,
                testing::HasSubstr("4 frames of 16x24 (width x height), 8 fps\n"));
  }
}

TEST_F(CliGenerate, CompareRunsBothAndMeasuresEveryFrame) {
  const RunResult result = generate(
      dir.file("a.mp4"), {"--steps", "2", "--seed", "1", "--topk", "1", "--compare", "--json",
                          "--contact-sheet", dir.file("a.png"), "--report", dir.file("a.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = result.json();
  EXPECT_EQ(files(),
            (Args{"a-compare.mp4", "a-dense.json", "a-dense.mp4", "a.json", "a.mp4", "a.png"}));
  EXPECT_EQ(json["kept_share"], 0.25);
  ASSERT_EQ(json["frames"].size(), 8U);
  for (const auto& frame : json["frames"]) {
    EXPECT_GT(frame["psnr_db"].get<double>(), 0.0);
    EXPECT_LT(frame["ssim"].get<double>(), 1.0);
  }
  EXPECT_EQ(json["report"]["vsa"]["seed"], json["report"]["dense"]["seed"]);
  EXPECT_EQ(json["report"]["dense"]["attention"]["asked"], "dense");
  EXPECT_GT(json["speedup"].get<double>(), 0.0);
  EXPECT_GT(json["attention_speedup"].get<double>(), 0.0);
  const auto both = video::read_video(dir.file("a-compare.mp4")).value();
  EXPECT_EQ(both.frames.width, 64);
  EXPECT_EQ(both.frames.height, 32);

  // All tiles kept: equal frames, whose PSNR JSON cannot hold.
  const auto equal =
      generate(dir.file("b.y4m"), {"--steps", "1", "--topk", "4", "--compare", "--json"}).json();
  EXPECT_TRUE(equal["frames"][0]["psnr_db"].is_null());
  EXPECT_EQ(equal["frames"][0]["ssim"], 1.0);
}

TEST_F(CliGenerate, CompareSaysWhereTheTimeWent) {
  const RunResult result =
      generate(dir.file("a.y4m"), {"--steps", "1", "--compare", "--report", dir.file("a.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("attention +linear +text +rest +kept\n"));
  EXPECT_THAT(result.out, testing::ContainsRegex("vsa is [0-9.]+ times as fast, its attention "
                                                 "[0-9.]+ times\n"));
  // Self-attention of all layers and steps, as the report has it.
  const auto report = nlohmann::json::parse(read_file(dir.file("a-dense.json")));
  double attention_ms = 0.0;
  for (const auto& layer : report["step_reports"][0]["layers"]) {
    attention_ms += layer["attention_ms"].get<double>();
  }
  std::smatch row;
  ASSERT_TRUE(std::regex_search(result.out, row, std::regex("\ndense +[0-9.]+ +([0-9.]+)")));
  EXPECT_NEAR(std::stod(row[1]), attention_ms / 1e3, 0.005001);
}

TEST_F(CliGenerate, R20_DecodeFinishesTheJob) {
  const std::string latents = dir.file("l.safetensors");
  ASSERT_EQ(generate(dir.file("a.y4m"), {"--steps", "2", "--latents", latents}).exit_code, 0);
  const RunResult result = run_vsa({"decode", latents, "-o", dir.file("b.y4m"), "--json"});
  expect_success(result);
  EXPECT_EQ(result.json()["steps_done"], 2);
  EXPECT_EQ(result.json()["prompt"], "a red ring");
  EXPECT_TRUE(read_file(dir.file("a.y4m")) == read_file(dir.file("b.y4m")));
}

TEST_F(CliGenerate, R29_CtrlCKeepsTheLatentsAndDecodeShowsThem) {
  RunOptions options;
  const std::string report = dir.file("report.json");
  options.terminal_stderr = true;  // which shows progress
  options.interrupt_when = [](const std::string& err) {
    return err.find("denoise") != std::string::npos;
  };
  const RunResult result =
      generate(dir.file("a.y4m"), {"--steps", "1000", "--report", report}, options);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.err, testing::HasSubstr("hint: `vsa decode "));
  EXPECT_EQ(files(), (Args{"a.latents.safetensors", "report.json"}));
  const int64_t done = nlohmann::json::parse(read_file(report))["steps_done"];
  EXPECT_LT(done, 1000);
  const RunResult decoded =
      run_vsa({"decode", dir.file("a.latents.safetensors"), "-o", dir.file("a.y4m"), "--json"});
  EXPECT_EQ(decoded.exit_code, 0);
  EXPECT_EQ(decoded.json()["steps_done"], done);
  EXPECT_THAT(decoded.err, testing::HasSubstr("warning: the run stopped after"));
}

TEST_F(CliGenerate, R29_CtrlCStopsDecoding) {
  expect_success(generate(dir.file("a.y4m"), {"--steps", "1", "--latents", dir.file("l")}));
  // 8 frames of 2048x2048 as mp4 take seconds; the temporary file shows that they have begun.
  RunOptions options;
  options.interrupt_when = [&](const std::string&) {
    return std::ranges::any_of(dir.files(), [](const auto& f) { return f.starts_with(".vsa-"); });
  };
  const RunResult result =
      run_vsa({"decode", dir.file("l"), "-o", dir.file("b.mp4"), "--upscale", "64"}, options);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  // "interrupted" if the file was that of the check whether there can be one.
  EXPECT_THAT(result.err, testing::AnyOf(testing::HasSubstr(": cancelled"),
                                         testing::HasSubstr("error: interrupted")));
  EXPECT_EQ(files(), (Args{"a.y4m", "l"}));
}

TEST_F(CliGenerate, ProgressBarOnATerminalOnly) {
  RunOptions options;
  options.terminal_stderr = true;
  const RunResult shown = generate(dir.file("a.y4m"), {"--steps", "20"}, options);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.err, testing::HasSubstr("denoise ["));
  EXPECT_THAT(shown.err, testing::HasSubstr("step 1/20"));
  EXPECT_THAT(shown.err, testing::EndsWith("\r\033[K"));  // wiped at the end
}

}  // namespace
}  // namespace vsa::test
