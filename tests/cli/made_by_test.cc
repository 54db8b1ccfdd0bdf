// Every video, picture and latents file says how it was made, unless that is not wanted.
#include <algorithm>

#include "runtime/video/metadata.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliMadeBy : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("tiny");

  CliMadeBy() { TinyModel().write(model); }

  RunResult generate(const std::string& output, const Args& more = {}) const {
    Args args = {"generate",
                 "--model",
                 model,
                 "--prompt",
                 "a \u6F22 ring",
                 "--negative-prompt",
                 "red",
                 "--guidance",
                 "2",
                 "--seed",
                 "7",
                 "--steps",
                 "2",
                 "-o",
                 output};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }

  /// The tokenizer of the tiny model lacks a piece of the prompt, which is a warning.
  static void expect_made(const RunResult& result) { EXPECT_EQ(result.exit_code, 0) << result.err; }

  static nlohmann::json made_by(const std::string& file) {
    const RunResult result = run_vsa({"verify", "--metadata", file});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? result.json() : nlohmann::json();
  }

  static void expect_none(const std::string& file) {
    expect_failure(run_vsa({"verify", "--metadata", file}), 1, "vsa verify", "metadata of vsa");
  }
};

TEST_F(CliMadeBy, P31_EveryKindOfFileSaysIt) {
  const std::string latents = dir.file("l.safetensors");
  const RunResult run = generate(
      dir.file("a.mp4"), {"--latents", latents, "--contact-sheet", dir.file("s.png"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json said = made_by(dir.file("a.mp4"));
  EXPECT_EQ(said["prompt"], "a \u6F22 ring");
  EXPECT_EQ(said["negative_prompt"], "red");
  EXPECT_EQ(said["seed"], 7);
  EXPECT_EQ(said["model"], "tiny");
  EXPECT_EQ(said["transformer_sha256"].get<std::string>().size(), 64U);
  EXPECT_EQ(said["steps"], 2);
  EXPECT_EQ(said["guidance"], 2.0);
  EXPECT_EQ(said["width"], 32);
  EXPECT_EQ(said["frames"], 8);
  EXPECT_EQ(said["attention"], "vsa");
  EXPECT_TRUE(said["software"].get<std::string>().starts_with("vsa "));
  EXPECT_EQ(said.dump().find(dir.path().string()), std::string::npos);  // no path of this machine
  EXPECT_EQ(video::read_metadata(dir.file("a.mp4")).value().title, "a \u6F22 ring");
  EXPECT_EQ(made_by(dir.file("s.png")), said);
  EXPECT_EQ(made_by(latents), said);
  // What decode makes of the latents says the same.
  for (const char* name : {"b.gif", "b.mp4", "f/%d.png"}) {
    expect_success(
        run_vsa({"decode", latents, "-o", dir.file(name), "--contact-sheet", dir.file("d.png")}));
    EXPECT_EQ(made_by(dir.file(name[0] == 'f' ? "f/3.png" : name)), said);
    EXPECT_EQ(made_by(dir.file("d.png")), said);
  }
  EXPECT_TRUE(read_file(dir.file("a.mp4")) == read_file(dir.file("b.mp4")));
}

TEST_F(CliMadeBy, P31_CompareAndBatch) {
  expect_made(generate(dir.file("a.gif"), {"--compare", "--contact-sheet", dir.file("s.png")}));
  for (const char* file : {"a-compare.gif", "s.png"}) {
    EXPECT_EQ(made_by(dir.file(file))["vsa"], made_by(dir.file("a.gif")));
    EXPECT_EQ(made_by(dir.file(file))["dense"], made_by(dir.file("a-dense.gif")));
  }
  EXPECT_EQ(made_by(dir.file("a-dense.gif"))["attention"], "dense");
  write_file(dir.file("list.json"), R"([{"prompt": "b", "name": "x", "seed": 3}])");
  EXPECT_EQ(run_vsa({"generate", "--model", model, "--steps", "1", "--batch", dir.file("list.json"),
                     "-o", dir.file("{name}.gif")})
                .exit_code,
            0);
  EXPECT_EQ(made_by(dir.file("x.gif"))["prompt"], "b");
  EXPECT_EQ(made_by(dir.file("x.gif"))["seed"], 3);
}

TEST_F(CliMadeBy, P31_NoneIfNotWanted) {
  const std::string latents = dir.file("l.safetensors");
  for (const char* name : {"a.mp4", "a.gif", "f/%d.png"}) {
    expect_made(generate(dir.file(name), {"--no-metadata", "--latents", latents, "--contact-sheet",
                                          dir.file("s.png")}));
    const std::string file = dir.file(name[0] == 'f' ? "f/0.png" : name);
    expect_none(file);
    expect_none(dir.file("s.png"));
    EXPECT_EQ(read_file(file).find("ring"), std::string::npos);
    expect_success(run_vsa({"decode", "--no-metadata", latents, "-o", dir.file(name)}));
    expect_none(file);
  }
  expect_made(generate(dir.file("c.gif"),
                       {"--no-metadata", "--compare", "--contact-sheet", dir.file("s.png")}));
  for (const char* name : {"c.gif", "c-dense.gif", "c-compare.gif", "s.png"}) {
    expect_none(dir.file(name));
  }
}

TEST_F(CliMadeBy, P31_TheContentDecidesNotTheName) {
  for (const char* name : {"a.MP4", "a.GIF", "f/%d.PNG"}) {
    expect_made(generate(dir.file(name), {"--contact-sheet", dir.file("S.PNG")}));
    const std::string file = dir.file(name[0] == 'f' ? "f/0.PNG" : name);
    EXPECT_EQ(made_by(file)["seed"], 7);
    std::filesystem::rename(file, dir.file("no extension"));
    EXPECT_EQ(made_by(dir.file("no extension"))["seed"], 7);
    EXPECT_EQ(made_by(dir.file("S.PNG"))["seed"], 7);
  }
}

TEST_F(CliMadeBy, P31_OtherFiles) {
  expect_made(generate(dir.file("a.y4m")));
  expect_failure(run_vsa({"verify", "--metadata", dir.file("a.y4m")}), 4, "vsa verify",
                 "got a y4m video");
  for (const char* name : {"a.y4m", "none.mp4", "tiny/model_index.json"}) {
    expect_failure(run_vsa({"verify", "--metadata", dir.file(name)}), 4, "vsa verify", name);
  }
  expect_none(model + "/transformer/diffusion_pytorch_model.safetensors");
}

TEST_F(CliMadeBy, P20_EveryOutputOfARunHasTheSameBytesAgain) {
  std::string first;
  for (int round = 0; round < 6; ++round) {
    std::string bytes;
    for (const char* name : {"a.mp4", "a.gif", "a.y4m"}) {
      expect_made(generate(dir.file(name),
                           {"--latents", dir.file("l"), "--contact-sheet", dir.file("s.png")}));
      for (const std::string& file : {dir.file(name), dir.file("l"), dir.file("s.png")}) {
        bytes += read_file(file);
      }
    }
    if (round == 0) first = bytes;
    ASSERT_TRUE(bytes == first) << round;
  }
}

TEST_F(CliMadeBy, P36_UnknownWordsAndSizesAreWarnings) {
  const auto warnings = [&](const Args& more) {
    Args args = {"generate", "--steps", "1", "-o", dir.file("a.y4m")};
    args.insert(args.end(), more.begin(), more.end());
    const RunResult result = run_vsa(args);
    EXPECT_EQ(result.exit_code, 0);
    return messages(result.err);
  };
  EXPECT_EQ(warnings({"--prompt", "a red circle moving right"}), "");
  EXPECT_THAT(warnings({"--prompt", "a dragon"}),
              testing::StartsWith(
                  "warning: prompt: the model was not trained on 1 of its 2 words: dragon;"));
  EXPECT_THAT(warnings({"--prompt", "\u9F8D"}), testing::HasSubstr("unknown to the tokenizer"));
  EXPECT_THAT(warnings({"--prompt", "a red circle", "--frames", "8"}),
              testing::StartsWith("warning: size: the model was trained on 16 frames"));
  EXPECT_THAT(warnings({"--prompt", "a red ring", "--negative-prompt", "cat", "--guidance", "2"}),
              testing::StartsWith(
                  "warning: negative prompt: the model was not trained on 1 of its 1 words: cat;"));
}

}  // namespace
}  // namespace vsa::test
