// `vsa verify`: sums as sha256sum prints them, and every way in which a model can be another one.
#include <filesystem>

#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliVerify : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");
  std::string sums = dir.file("sums");
  std::string weights = model + "/transformer/diffusion_pytorch_model.safetensors";

  CliVerify() {
    TinyModel().write(model);
    write_file(sums, run_vsa({"verify", model}).out);
  }

  /// Changes one byte of a file, keeping its size.
  static void flip(const std::string& path, size_t from_end) {
    std::string text = read_file(path);
    text[text.size() - from_end] = static_cast<char>(text[text.size() - from_end] ^ 1);
    write_file(path, text);
  }

  void fails(int code, const std::string& text, Args args) const {
    args.insert(args.begin(), "verify");
    expect_failure(run_vsa(args), code, "vsa verify", text);
  }
};

TEST_F(CliVerify, R16_PrintsWhatSha256sumChecks) {
  EXPECT_EQ(std::ranges::count(read_file(sums), '\n'), 7);
  const std::string check = "cd '" + model + "' && sha256sum --quiet --check ../sums";
  EXPECT_EQ(std::system(check.c_str()), 0);
  const RunResult again = run_vsa({"verify", model + "/", "--sums", sums});
  expect_success(again);
  EXPECT_EQ(again.out, "7 files, all as in " + sums + "\n");
}

TEST_F(CliVerify, R16_AFlippedByteIsFoundAndNamed) {
  flip(weights, 1);  // the last byte of a weight: no header check can see it
  expect_success(run_vsa({"verify", model}));
  fails(1, "transformer/diffusion_pytorch_model.safetensors has SHA-256 ", {model, "--sums", sums});
}

TEST_F(CliVerify, R16_DamagedHeadersAreRefused) {
  write_file(weights, read_file(weights).substr(0, 5000));
  fails(4, "diffusion_pytorch_model.safetensors", {model});
  fails(4, "diffusion_pytorch_model.safetensors", {weights});
}

TEST_F(CliVerify, TheReportOfARunIsAListOfSums) {
  const std::string report = dir.file("report.json");
  expect_success(run_vsa({"generate", "--model", model, "--prompt", "x", "--steps", "1", "-o",
                          dir.file("a.y4m"), "--report", report}));
  expect_success(run_vsa({"verify", model, "--sums", report}));
  flip(model + "/text_encoder/model.safetensors", 1);
  fails(1, "text_encoder/model.safetensors has SHA-256 ", {model, "--sums", report});
  const RunResult json = run_vsa({"verify", model, "--json"});
  expect_success(json);
  write_file(report, json.out);
  expect_success(run_vsa({"verify", model, "--sums", report}));
}

TEST_F(CliVerify, MissingAndUnlistedFiles) {
  const std::string all = read_file(sums);
  const size_t second = all.find('\n') + 1;
  write_file(sums, all.substr(second));
  fails(1, "model_index.json is not listed", {model, "--sums", sums});
  write_file(sums, all + std::string(64, 'a') + "  vae/config.json\n");
  fails(1, "vae/config.json is missing", {model, "--sums", sums});
}

TEST_F(CliVerify, OneSafetensorsFile) {
  const RunResult one = run_vsa({"verify", weights, "--json"});
  expect_success(one);
  ASSERT_EQ(one.json()["files"].size(), 1U);
  EXPECT_EQ(one.json()["files"][0]["path"], "diffusion_pytorch_model.safetensors");
  EXPECT_EQ(one.json()["files"][0]["bytes"], std::filesystem::file_size(weights));
  RunOptions here;
  here.directory = model + "/transformer";
  EXPECT_EQ(run_vsa({"verify", "diffusion_pytorch_model.safetensors"}, here).out,
            run_vsa({"verify", weights}).out);
}

TEST_F(CliVerify, P26_FilesOfOtherKindsAreFoundInEveryPart) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 134\n";
  for (const char* part :
       {"tokenizer/spiece.model", "transformer/diffusion_pytorch_model.safetensors",
        "text_encoder/model.safetensors", "transformer/config.json", "text_encoder/config.json",
        "scheduler/scheduler_config.json", "model_index.json"}) {
    const std::string path = model + "/" + part;
    const std::string right = read_file(path);
    for (const auto& [content, word] : {std::pair{pointer, "git lfs pull"},
                                        {std::string("<!doctype html><html>"), "a web page"}}) {
      write_file(path, content);
      fails(4, part, {model});
      fails(4, word, {model});
      // A run finds it as well, before it has done any work.
      expect_failure(run_vsa({"generate", "--model", model, "--prompt", "x", "--steps", "1", "-o",
                              dir.file("a.y4m")}),
                     4, "vsa generate", word);
    }
    write_file(path, right);
  }
  expect_success(run_vsa({"verify", model}));
}

TEST_F(CliVerify, P26_ATokenizerThatIsTooLargeIsFound) {
  TinyModel other;
  other.text_config["vocab_size"] = 10;
  other.write(model);
  fails(4, "tokenizer/spiece.model: expected at most 10 pieces", {model});
}

TEST_F(CliVerify, P25_VariantsAndLeftovers) {
  const std::string folder = model + "/transformer/";
  write_file(folder + "._diffusion_pytorch_model.safetensors", "macOS");
  write_file(folder + "diffusion_pytorch_model.ema.safetensors", read_file(weights));
  flip(folder + "diffusion_pytorch_model.ema.safetensors", 1);
  expect_success(run_vsa({"verify", model, "--sums", sums}));
  const RunResult ema = run_vsa({"verify", model, "--variant", "ema"});
  EXPECT_EQ(ema.exit_code, 0);
  EXPECT_THAT(ema.out, testing::HasSubstr("transformer/diffusion_pytorch_model.ema.safetensors"));
  EXPECT_THAT(ema.err, testing::StartsWith("warning: variant: text_encoder has no weights"));
  fails(4, "expected weights of the variant fp16", {model, "--variant", "fp16"});
  const auto generate = [&](const Args& more) {
    Args args = {"generate", "--model", model, "--prompt",        "x",     "--steps", "1",
                 "--seed",   "1",       "-o",  dir.file("a.y4m"), "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args).json();
  };
  EXPECT_NE(generate({})["transformer_sha256"],
            generate({"--variant", "ema"})["transformer_sha256"]);
}

TEST_F(CliVerify, WrongInput) {
  fails(4, "none", {dir.file("none")});
  fails(4, "cannot be read", {model, "--sums", dir.file("none")});
  for (const char* text : {"", "nonsense", "{}", R"({"files": []})", R"({"files": [3]})",
                           R"({"files": [{"path": "a", "sha256": "xyz"}]})", "[1]"}) {
    write_file(sums, text);
    fails(4, "--sums " + sums, {model, "--sums", sums});
  }
  write_file(sums, std::string(64, 'A') + "  a\n");
  fails(4, sums + ":1: expected 64", {model, "--sums", sums});
}

}  // namespace
}  // namespace vsa::test
