// `vsa` works in any folder: it finds its model, and makes the folders of its outputs.
#include <filesystem>

#include "tests/cli/attention_file.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using testing::HasSubstr;

struct CliAnywhere : testing::Test {
  TemporaryDirectory dir;

  RunOptions here(const Args& environment = {}) const {
    RunOptions options;
    options.directory = dir.path();
    options.environment = environment;
    return options;
  }
  static Args short_run(const std::string& output, const Args& more = {}) {
    Args args = {"generate", "--prompt", "a red circle moving right",
                 "--steps",  "1",        "--frames",
                 "8",        "--size",   "32x32",
                 "-o",       output};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_F(CliAnywhere, P33_TheModelThatShipsIsFoundFromAnotherFolder) {
  const RunResult result = run_vsa(short_run("a.y4m", {"--json"}), here({"VSA_MODELS="}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["model"], "wan-toy");
  EXPECT_EQ(run_vsa({"verify", "wan-toy"}, here()).exit_code, 0);
}

TEST_F(CliAnywhere, P33_ModelsAreFoundByNameInVsaModels) {
  TinyModel().write(dir.file("store/tiny"));
  TinyModel().write(dir.file("store/wan-toy"));
  const RunOptions options = here({"VSA_MODELS=" + dir.file("none") + ":" + dir.file("store")});
  const RunResult tiny = run_vsa(short_run("a.y4m", {"--model", "tiny", "--json"}), options);
  ASSERT_EQ(tiny.exit_code, 0) << tiny.err;
  EXPECT_EQ(tiny.json()["model"], "tiny");
  // It goes before the model that ships, and a folder of the name before both.
  const RunResult other = run_vsa(short_run("a.y4m", {"--json"}), options);
  EXPECT_EQ(other.json()["transformer_sha256"], tiny.json()["transformer_sha256"]);
  TinyModel(2).write(dir.file("tiny"));
  const RunResult folder = run_vsa(short_run("a.y4m", {"--model", "tiny", "--json"}), options);
  EXPECT_NE(folder.json()["transformer_sha256"], tiny.json()["transformer_sha256"]);
}

TEST_F(CliAnywhere, P33_WhereItLookedIsSaid) {
  const RunResult result = run_vsa(short_run("a.y4m", {"--model", "nothing"}),
                                   here({"VSA_MODELS=" + dir.file("store")}));
  expect_failure(result, 4, "vsa generate", "--model nothing: no such folder");
  EXPECT_THAT(result.err, HasSubstr(dir.file("store/nothing")));
  EXPECT_THAT(result.err, HasSubstr("/vsa/models/nothing"));
  // A path is looked for nowhere else.
  EXPECT_THAT(run_vsa(short_run("a.y4m", {"--model", "./wan-toy"}), here()).err,
              HasSubstr("--model ./wan-toy: no such folder"));
}

TEST_F(CliAnywhere, P33_FoldersOfAllOutputsAreMade) {
  TinyModel().write(dir.file("model"));
  const Args model = {"--model",   "model",           "--report",        "b/r/r.json",
                      "--latents", "c/l.safetensors", "--contact-sheet", "d/e/s.png"};
  expect_success(run_vsa(short_run("out/x.mp4", model), here()));
  expect_success(run_vsa(
      {"decode", "c/l.safetensors", "-o", "o/p/%d.png", "--contact-sheet", "q/s.png"}, here()));
  write_file(dir.file("list.json"), R"([{"prompt": "a", "name": "x"}])");
  EXPECT_EQ(run_vsa({"generate", "--model", "model", "--steps", "1", "--batch", "list.json", "-o",
                     "{name}/v.y4m", "--manifest", "m/n/list.jsonl", "--report", "t/{name}.json"},
                    here())
                .exit_code,
            0);
  const Dims dims{.batch = 1, .num_heads = 1, .seq_len = 64, .head_dim = 16};
  write_tensors(dir.file("in.safetensors"), {{"q", normal_tensor(DType::kF32, dims, 1)},
                                             {"k", normal_tensor(DType::kF32, dims, 2)},
                                             {"v", normal_tensor(DType::kF32, dims, 3)}});
  expect_success(run_vsa({"attend", "in.safetensors", "-o", "u/v/out.safetensors", "--grid",
                          "4,4,4", "--topk", "1", "--gate-coarse", "zero"},
                         here()));
  expect_success(run_vsa(
      {"inspect", "in.safetensors", "--grid", "4,4,4", "--topk", "1", "--png", "w/maps"}, here()));
  for (const char* file : {"out/x.mp4", "b/r/r.json", "c/l.safetensors", "d/e/s.png", "o/p/0.png",
                           "q/s.png", "x/v.y4m", "m/n/list.jsonl", "t/x.json",
                           "u/v/out.safetensors", "w/maps/head00-scores.png"}) {
    EXPECT_TRUE(fs::exists(dir.file(file))) << file;
  }
}

TEST_F(CliAnywhere, P33_ARunThatIsRefusedMakesNone) {
  TinyModel().write(dir.file("model"));
  expect_failure(run_vsa(short_run("out/x.mp4", {"--model", "model", "--topk", "99"}), here()), 2,
                 "vsa generate", "topk");
  EXPECT_FALSE(fs::exists(dir.file("out")));
}

}  // namespace
}  // namespace vsa::test
