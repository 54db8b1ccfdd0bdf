// `vsa generate` and `vsa decode`: wrong options, unwritable places, full disks.
#include <algorithm>
#include <filesystem>

#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliGenerateError : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");
  std::string output = dir.file("out.y4m");

  CliGenerateError() { TinyModel().write(model); }

  Args files() const {
    Args all = dir.files();
    std::erase_if(all, [](const std::string& f) { return f.starts_with("model/"); });
    return all;
  }

  RunResult generate(const Args& more, const RunOptions& options = {}) const {
    Args args = {"generate", "--model", model};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args, options);
  }

  /// With a prompt, an output and one step.
  void fails(int exit_code, const std::string& text, const Args& more) const {
    Args args = {"--prompt", "x", "-o", output};
    args.insert(args.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--steps") == more.end()) args.insert(args.end(), {"--steps", "1"});
    expect_failure(generate(args), exit_code, "vsa generate", text);
    EXPECT_EQ(files(), Args{});
  }
};

TEST_F(CliGenerateError, Options) {
  fails(2, "steps", {"--steps", "0"});
  fails(2, "steps", {"--steps", "many"});
  fails(2, "frames", {"--frames", "0"});
  fails(2, "--frames: expected a multiple of 2", {"--frames", "7"});
  fails(2, "--size: expected WIDTHxHEIGHT in pixels, as 832x480, got 32", {"--size", "32"});
  fails(2, "--size: expected WIDTHxHEIGHT in pixels, as 832x480, got 0x32", {"--size", "0x32"});
  fails(2, "--size: expected a width that is a multiple of 4", {"--size", "32x33"});
  fails(2, "seed", {"--seed", "-2"});
  fails(2, "guidance", {"--guidance", "nan"});
  fails(2, "guidance", {"--guidance", "inf"});
  fails(2, "sparsity", {"--sparsity", "nan"});
  fails(2, "sparsity", {"--sparsity", "1.5"});
  fails(2, "topk", {"--topk", "0"});
  fails(2, "topk", {"--topk", "5"});
  fails(2, "at most one of --sparsity, --topk and --keep", {"--topk", "1", "--sparsity", "0.5"});
  fails(2, "--attention: expected vsa or dense, got sparse", {"--attention", "sparse"});
  fails(2, "--attention dense: expected none of", {"--attention", "dense", "--topk", "1"});
  fails(2, "--compare: expected --attention vsa", {"--attention", "dense", "--compare"});
  fails(2, "--dense-layers: expected 0 to", {"--dense-layers", "99"});
  fails(2, "--dense-layers: expected whole numbers between commas", {"--dense-layers", "1,,2"});
  fails(2, "--dense-steps: expected 0 to 1, got 2", {"--dense-steps", "2"});
  fails(2, "--tile: expected", {"--tile", "4,4"});
  fails(2, "--tile: expected at most 256", {"--tile", "99,99,99"});
  fails(2, "--upscale: expected a whole number from 1 to 64, got 0", {"--upscale", "0"});
  fails(2, "--contact-sheet: expected a .png", {"--contact-sheet", dir.file("sheet.jpg")});
  fails(2, "--threads", {"--threads", "-1"});
  fails(3, "--backend hip: not compiled in", {"--backend", "hip"});
  expect_failure(generate({"-o", output}), 2, "vsa generate", "--prompt: expected a text");
  expect_failure(generate({"--prompt", "x"}), 2, "vsa generate", "expected --output, got none");
}

TEST_F(CliGenerateError, OneFileForTwoOutputs) {
  const std::string other = dir.file("./sub/../out.y4m");  // the same by another spelling
  fails(2, "--report: expected another file than --output", {"--report", other});
  fails(2, "--latents: expected another file than --output", {"--latents", output});
  const std::string picture = dir.file("a.png");
  fails(2, "--report: expected another file than --contact-sheet",
        {"--report", picture, "--contact-sheet", picture});
  fails(2, "the comparison: expected another file than --report",
        {"--compare", "--report", dir.file("out-compare.y4m")});
  fails(2, "--output of the dense run: expected another file than --latents",
        {"--compare", "--latents", dir.file("out-dense.y4m")});
  expect_success(
      generate({"--prompt", "x", "--steps", "1", "-o", output, "--latents", dir.file("l")}));
  expect_failure(run_vsa({"decode", dir.file("l"), "-o", output, "--contact-sheet", output}), 2,
                 "vsa decode", "--contact-sheet: expected");
  std::filesystem::rename(dir.file("l"), dir.file("l.gif"));
  expect_failure(run_vsa({"decode", dir.file("l.gif"), "-o", dir.file("l.gif")}), 2, "vsa decode",
                 "latents: expected another file than --output");
}

TEST_F(CliGenerateError, APromptWithoutText) {
  for (const char* prompt : {"", "  \n", "\xEF\xBB\xBF", "&nbsp;"}) {
    expect_failure(generate({"--prompt", prompt, "-o", output}), 2, "vsa generate",
                   "--prompt: expected a text, got none");
  }
  expect_failure(generate({"--prompt", "\xFF", "-o", output}), 2, "vsa generate",
                 "--prompt: expected UTF-8");
}

TEST_F(CliGenerateError, R21_UnwritablePlacesAreFoundBeforeTheRun) {
  const std::string nowhere = model + "/model_index.json/no/such";  // below a file
  expect_failure(generate({"--prompt", "x", "-o", nowhere + "/a.mp4"}), 4, "vsa generate", nowhere);
  for (const char* option : {"--report", "--latents", "--contact-sheet"}) {
    fails(4, nowhere, {option, nowhere + "/file.png"});
  }
}

TEST_F(CliGenerateError, R21_AFullDiskAtTheEndKeepsTheLatents) {
  // The latents of 8 frames of 32x32 are 98 KB in f32; the video, enlarged, is more.
  RunOptions options;
  options.max_file_bytes = 150'000;
  const RunResult result =
      generate({"--prompt", "x", "--steps", "1", "-o", output, "--upscale", "8"}, options);
  expect_failure(result, 4, "vsa generate", output);
  EXPECT_THAT(result.err, testing::HasSubstr("hint: the latents are complete: `vsa decode "));
  EXPECT_EQ(files(), Args{"out.latents.safetensors"});
  expect_success(
      run_vsa({"decode", dir.file("out.latents.safetensors"), "-o", output, "--upscale", "8"}));

  // If not even the latents fit, the run fails, too.
  std::filesystem::remove(output);
  std::filesystem::remove(dir.file("out.latents.safetensors"));
  options.max_file_bytes = 1024;  // as much as the OpenMP of LLVM needs in /dev/shm
  expect_failure(generate({"--prompt", "x", "--steps", "1", "-o", output}, options), 4,
                 "vsa generate", "out.latents.safetensors");
  EXPECT_EQ(files(), Args{});
}

TEST_F(CliGenerateError, Models) {
  expect_failure(generate({"--model", dir.file("none"), "--prompt", "x", "-o", output}), 2,
                 "vsa generate", "--model");  // given twice
  const std::string weights = model + "/transformer/diffusion_pytorch_model.safetensors";
  write_file(weights, read_file(weights).substr(0, 1000));
  fails(4, "diffusion_pytorch_model.safetensors", {});
  std::filesystem::remove(model + "/model_index.json");
  fails(4, "model_index.json", {});
  std::filesystem::remove_all(model);
  fails(4, "--model " + model + ": no such folder", {});
}

TEST_F(CliGenerateError, Decode) {
  const auto decode = [&](const std::string& latents, const std::string& to) {
    return run_vsa({"decode", latents, "-o", to});
  };
  const std::string latents = dir.file("l.safetensors");
  expect_failure(decode(latents, output), 4, "vsa decode", latents);
  write_file(latents, "junk");
  expect_failure(decode(latents, output), 4, "vsa decode", latents);
  expect_failure(decode(model + "/transformer/diffusion_pytorch_model.safetensors", output), 4,
                 "vsa decode", "latents");
  write_file(latents, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n");
  expect_failure(decode(latents, output), 4, "vsa decode", "a Git LFS pointer");  // P26
  expect_failure(decode(latents, dir.file("a.avi")), 2, "vsa decode", "a.avi");
  EXPECT_EQ(files(), Args{"l.safetensors"});
}

}  // namespace
}  // namespace vsa::test
