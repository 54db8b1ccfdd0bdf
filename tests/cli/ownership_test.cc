// Nothing is removed or replaced that this run did not write and that its user did not name.
#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using testing::HasSubstr;

struct CliOwnership : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");

  CliOwnership() { TinyModel().write(model); }

  RunResult generate(const std::string& output, const Args& more = {},
                     const RunOptions& options = {}) const {
    Args args = {"generate", "--model", model, "--prompt", "a red ring",
                 "--seed",   "1",       "-o",  output};
    args.insert(args.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--steps") == more.end()) args.insert(args.end(), {"--steps", "1"});
    return run_vsa(args, options);
  }

  Args files() const {
    Args all = dir.files();
    std::erase_if(all, [](const std::string& f) { return f.starts_with("model/"); });
    return all;
  }
};

TEST_F(CliOwnership, P22_KeptLatentsOfAnotherRunStay) {
  const std::string kept = dir.file("clip.latents.safetensors");
  expect_success(generate(dir.file("clip.mp4"), {"--latents", kept}));
  const std::string before = read_file(kept);
  expect_success(generate(dir.file("clip.gif")));
  expect_success(generate(dir.file("clip.y4m")));
  EXPECT_TRUE(read_file(kept) == before);
  EXPECT_EQ(files(), (Args{"clip.gif", "clip.latents.safetensors", "clip.mp4", "clip.y4m"}));
}

TEST_F(CliOwnership, P22_AnybodysFileOfThatNameStays) {
  write_file(dir.file("clip.latents.safetensors"), "mine");
  write_file(dir.file("frames.latents.safetensors"), "mine");
  expect_success(generate(dir.file("clip.gif")));
  expect_success(generate(dir.file("frames/%d.png")));
  EXPECT_EQ(read_file(dir.file("clip.latents.safetensors")), "mine");
  EXPECT_EQ(read_file(dir.file("frames.latents.safetensors")), "mine");
}

TEST_F(CliOwnership, P22_LatentsOfAnInterruptedRunStay) {
  RunOptions options;
  options.interrupt_when = [](const std::string& err) {
    return err.find("step ") != std::string::npos;
  };
  EXPECT_EQ(generate(dir.file("a.y4m"), {"--steps", "1000"}, options).exit_code, 130);
  const std::string first = read_file(dir.file("a.latents.safetensors"));
  // The same again: other latents, under another name, and the hint says which.
  const RunResult second = generate(dir.file("a.y4m"), {"--steps", "1000"}, options);
  EXPECT_EQ(second.exit_code, 130);
  EXPECT_THAT(second.err, HasSubstr("a.latents-2.safetensors -o FILE`"));
  EXPECT_EQ(files(), (Args{"a.latents-2.safetensors", "a.latents.safetensors"}));
  expect_success(generate(dir.file("a.y4m")));
  EXPECT_TRUE(read_file(dir.file("a.latents.safetensors")) == first);
  EXPECT_EQ(files(), (Args{"a.latents-2.safetensors", "a.latents.safetensors", "a.y4m"}));
}

TEST_F(CliOwnership, P22_CompareReplacesNoFileThatItsUserDidNotName) {
  const Args kinds = {"a-dense.y4m", "a-compare.y4m", "r-dense.json", "l-dense.safetensors"};
  const Args more = {"--compare", "--report", dir.file("r.json"), "--latents",
                     dir.file("l.safetensors")};
  for (const std::string& name : kinds) {
    write_file(dir.file(name), "mine");
    const RunResult result = generate(dir.file("a.y4m"), more);
    expect_failure(result, 4, "vsa generate", "expected a free name, got " + dir.file(name));
    EXPECT_THAT(result.err, HasSubstr("--overwrite"));
    EXPECT_EQ(files(), Args{name});
    fs::remove(dir.file(name));
  }
  fs::create_directory(dir.file("f-dense"));
  write_file(dir.file("f-dense/0.png"), "mine");
  expect_failure(generate(dir.file("f/%d.png"), {"--compare"}), 4, "vsa generate", "f-dense/0.png");
  EXPECT_EQ(read_file(dir.file("f-dense/0.png")), "mine");
  fs::remove_all(dir.file("f-dense"));

  write_file(dir.file("a-dense.latents.safetensors"), "mine");  // these get a free name
  EXPECT_EQ(generate(dir.file("a.y4m"), {"--compare"}).exit_code, 0);
  EXPECT_EQ(read_file(dir.file("a-dense.latents.safetensors")), "mine");
  EXPECT_EQ(generate(dir.file("a.y4m"), {"--compare", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(files(),
            (Args{"a-compare.y4m", "a-dense.latents.safetensors", "a-dense.y4m", "a.y4m"}));
}

TEST_F(CliOwnership, P22_AManifestOfSomethingElseIsNotAddedTo) {
  write_file(dir.file("list.json"), R"([{"prompt": "a", "name": "x"}])");
  const Args batch = {"generate",
                      "--model",
                      model,
                      "--steps",
                      "1",
                      "--batch",
                      dir.file("list.json"),
                      "-o",
                      dir.file("out/{name}.y4m")};
  fs::create_directory(dir.file("out"));
  const std::string manifest = dir.file("out/manifest.jsonl");
  const std::string others = "{\"file\": \"cat.jpg\"}\n";
  write_file(manifest, others);
  expect_failure(run_vsa(batch), 4, "vsa generate", "--manifest " + manifest);
  EXPECT_EQ(read_file(manifest), others);
  // A line that a crash cut short is no other file, and the next line does not grow on to it.
  write_file(manifest, "{\"name\": \"y\", \"prom");
  EXPECT_EQ(run_vsa(batch).exit_code, 0);
  EXPECT_EQ(run_vsa(batch).out, "");  // it is found again
}

TEST_F(CliOwnership, P22_TwoRunsWithOneOutput) {
  std::vector<RunResult> results(4);
  std::vector<std::thread> runs;
  for (size_t i = 0; i < results.size(); ++i) {
    runs.emplace_back([&, i] {
      results[i] =
          generate(i % 2 == 0 ? dir.file("a.y4m") : dir.file("f/%d.png"), {"--steps", "3"});
    });
  }
  for (std::thread& run : runs) run.join();
  for (const RunResult& result : results) expect_success(result);
  const std::string video = read_file(dir.file("a.y4m"));
  expect_success(generate(dir.file("b.y4m"), {"--steps", "3"}));
  EXPECT_TRUE(video == read_file(dir.file("b.y4m")));
  Args left = files();
  std::erase_if(left, [](const std::string& f) { return f.starts_with("f/"); });
  EXPECT_EQ(left, (Args{"a.y4m", "b.y4m"}));  // no latents, nothing temporary
  EXPECT_EQ(files().size(), 2U + 8U);
}

TEST_F(CliOwnership, P22_AFailedRunRemovesTheFoldersItMade) {
  RunOptions options;
  options.max_file_bytes = 1024;  // as much as the OpenMP of LLVM needs in /dev/shm
  EXPECT_EQ(generate(dir.file("new/deep/a.y4m"), {}, options).exit_code, 4);
  EXPECT_FALSE(fs::exists(dir.file("new")));
  fs::create_directory(dir.file("mine"));
  EXPECT_EQ(generate(dir.file("mine/%d.png"), {"--upscale", "8"}, options).exit_code, 4);
  EXPECT_TRUE(fs::exists(dir.file("mine")));
}

}  // namespace
}  // namespace vsa::test
