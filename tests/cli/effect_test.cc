// Every option has an effect or says that it has none; entries of a batch may have settings of
// their own; prompts of a text file; the video on stdout.
#include <algorithm>
#include <sstream>

#include "runtime/video/read_video.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;
using testing::HasSubstr;

struct CliEffect : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");

  CliEffect() { TinyModel().write(model); }

  RunResult generate(const Args& more, const RunOptions& options = {}) const {
    Args args = {"generate", "--model", model, "--steps", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args, options);
  }

  RunResult batch(const std::string& name, const std::string& text, const Args& more = {}) const {
    write_file(dir.file(name), text);
    Args args = {
        "generate", "--model", model, "--batch", dir.file(name), "-o", dir.file("out/{name}.y4m")};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }

  std::vector<nlohmann::json> manifest() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(read_file(dir.file("out/manifest.jsonl")));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  void expect_warning(const RunResult& result, const std::string& text) const {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("warning: " + text));
  }
};

TEST_F(CliEffect, P28_ANegativePromptWithoutGuidance) {
  const Args args = {"-p", "x", "-n", "red", "--seed", "1", "-o", dir.file("a.y4m"), "--json"};
  Args unguided = args;
  unguided.insert(unguided.end(), {"--guidance", "1", "--latents", dir.file("l")});
  const RunResult result = generate(unguided);
  expect_warning(result, "negative prompt: it has no effect at guidance 1");
  EXPECT_EQ(result.json()["negative_prompt"], "");
  EXPECT_EQ(read_file(dir.file("l")).find("\"red\""), std::string::npos);

  Args guided = args;
  guided.insert(guided.end(), {"--guidance", "3"});
  const RunResult used = generate(guided);
  EXPECT_EQ(messages(used.err), "");
  EXPECT_EQ(used.json()["negative_prompt"], "red");
}

TEST_F(CliEffect, P28_OptionsThatNeedOthers) {
  const std::string out = dir.file("a.y4m");
  expect_warning(generate({"-p", "x", "-o", out, "--manifest", dir.file("m")}),
                 "--manifest: has no effect without --batch\n");
  expect_warning(generate({"-p", "x", "-o", out, "--part", "1/1"}),
                 "--part: has no effect without --batch\n");
  expect_warning(generate({"-p", "x", "-o", out, "--format", "mp4"}),
                 "--format: has no effect without -o -");
  expect_warning(generate({"-p", "x", "-o", dir.file("f/%d.png"), "--fps", "5"}),
                 "--fps: has no effect on frames as .png files\n");
  expect_warning(generate({"-p", "x", "-o", out, "--overwrite"}),
                 "--overwrite: has no effect without --compare\n");
  EXPECT_FALSE(std::filesystem::exists(dir.file("m")));
  const std::string cases = std::string(VSA_SOURCE_DIR) + "/bench/cases";
  for (const Args& more : {Args{"--repeats", "3"},
                           {"--stage", "fine"},
                           {"--dtype", "bf16"},
                           {"--threads", "1"},
                           {"--backend", "reference"}}) {
    Args args = {"bench", "--list", "--cases", cases};
    args.insert(args.end(), more.begin(), more.end());
    expect_warning(run_vsa(args), more[0] + ": has no effect with --list\n");
  }
}

TEST_F(CliEffect, P28_EntriesOfABatchHaveSettingsOfTheirOwn) {
  const std::string list =
      "{\"prompt\": \"a\", \"steps\": 2, \"guidance\": 1, \"frames\": 4, \"size\": \"16x24\", "
      "\"fps\": 5, \"topk\": 1, \"seed\": 3}\n"
      "{\"prompt\": \"a\", \"seed\": 3}\n";
  const RunResult result =
      batch("l.jsonl", list, {"--steps", "1", "--report", dir.file("out/{name}.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto first = nlohmann::json::parse(read_file(dir.file("out/00000.json")));
  EXPECT_EQ(first["steps"], 2);
  EXPECT_EQ(first["guidance"], 1.0);
  EXPECT_EQ(first["frames"], 4);
  EXPECT_EQ(first["fps"], 5.0);
  EXPECT_EQ(first["attention"]["topk"], 1);
  const auto video = video::read_video(dir.file("out/00000.y4m")).value();
  EXPECT_EQ(video.frames.width, 16);
  EXPECT_EQ(video.frames.height, 24);
  const auto second = nlohmann::json::parse(read_file(dir.file("out/00001.json")));
  EXPECT_EQ(second["steps"], 1);
  EXPECT_EQ(second["frames"], 8);

  // What is there is not made again, but an entry whose settings changed is.
  EXPECT_EQ(batch("l.jsonl", list, {"--steps", "1"}).out, "");
  std::string other = list;
  other.replace(other.find("\"steps\": 2"), 10, "\"steps\": 3");
  EXPECT_EQ(batch("l.jsonl", other, {"--steps", "1"}).json()["name"], "00000");
}

TEST_F(CliEffect, P28_OptionsThatNoEntryLeavesToThem) {
  const std::string list =
      R"([{"prompt": "a", "seed": 1, "steps": 1, "attention": "dense", "dense_steps": 1, "by": "x"}])";
  const RunResult result = batch("l.json", list, {"--seed", "3", "--steps", "2"});
  expect_warning(result, "--seed: has no effect, as every entry of the batch has its own\n");
  expect_warning(result, "--steps: has no effect, as every entry of the batch has its own\n");
  expect_warning(result,
                 "attention: has no effect in an entry: it is an option of the whole batch\n");
  expect_warning(result, "dense_steps: has no effect in an entry");
  EXPECT_EQ(result.err.find("warning: by:"), std::string::npos);
}

TEST_F(CliEffect, P23_NumbersOfABatch) {
  for (const char* field :
       {R"("steps": 0)", R"("steps": "4")", R"("steps": 2.5)", R"("steps": 1e3)", R"("frames": -1)",
        R"("frames": 18446744073709551616)", R"("guidance": -1)", R"("guidance": "3")",
        R"("fps": 0)", R"("sparsity": -1)", R"("keep": 0)", R"("topk": 0)", R"("size": "0x8")",
        R"("size": 8)", R"("topk": 1, "keep": 0.5)", R"("seed": true)", R"("seed": null)"}) {
    const std::string entry = std::string("[{\"prompt\": \"a\", ") + field + "}]";
    const RunResult result = batch("l.json", entry, {"--steps", "1"});
    expect_failure(result, 4, "vsa generate", "entry 0: ");
    EXPECT_THAT(result.err, HasSubstr("expected ")) << field;
  }
  EXPECT_FALSE(std::filesystem::exists(dir.file("out")));
}

TEST_F(CliEffect, P27_ARandomSeedInABatchIsRecorded) {
  const std::string list = R"([{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c", "seed": 5}])";
  ASSERT_EQ(batch("l.json", list, {"--seed", "-1", "--steps", "1"}).exit_code, 0);
  const auto random = manifest();
  ASSERT_EQ(random.size(), 3U);
  EXPECT_EQ(random[2]["seed"], 5);
  // 31 bits each: that both are a position is as good as impossible.
  EXPECT_FALSE(random[0]["seed"] == 0 && random[1]["seed"] == 1);
  EXPECT_GE(random[0]["seed"].get<int64_t>(), 0);
  EXPECT_NE(random[0]["seed"], random[1]["seed"]);
  // A video with a random seed is complete, whatever seed it got.
  EXPECT_EQ(batch("l.json", list, {"--seed", "-1", "--steps", "1"}).out, "");
  // And can be made again by what was recorded.
  const std::string alone = dir.file("alone.y4m");
  expect_success(generate({"-p", "a", "--seed", random[0]["seed"].dump(), "-o", alone}));
  EXPECT_TRUE(read_file(alone) == read_file(dir.file("out/00000.y4m")));

  std::filesystem::remove_all(dir.file("out"));
  ASSERT_EQ(batch("l.json", R"([{"prompt": "a", "seed": -1}, {"prompt": "b"}])", {"--steps", "1"})
                .exit_code,
            0);
  EXPECT_GE(manifest()[0]["seed"].get<int64_t>(), 0);
  EXPECT_EQ(manifest()[1]["seed"], 1);  // without -1, its position
}

TEST_F(CliEffect, PromptsOfATextFile) {
  const RunResult result = batch("prompts.TXT",
                                 "\xEF\xBB\xBF# what to draw\r\n"
                                 "a red ring\r\n"
                                 "\r\n"
                                 "   \t\n"
                                 "  a green star, {not a field}  \n"
                                 "# done\n"
                                 "ein wei\xC3\x9F"
                                 "er Kreis",
                                 {"--steps", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = manifest();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["prompt"], "a red ring");
  EXPECT_EQ(lines[1]["prompt"], "a green star, {not a field}");
  EXPECT_EQ(lines[2]["prompt"],
            "ein wei\xC3\x9F"
            "er Kreis");
  EXPECT_EQ(lines[2]["name"], "00002");
  EXPECT_EQ(lines[2]["seed"], 2);
  expect_failure(batch("empty.txt", "# nothing\n\n"), 4, "vsa generate",
                 "expected a list of prompts");
  expect_failure(batch("latin1.txt", "a wei\xDF ring\n"), 4, "vsa generate", "expected UTF-8");
  expect_failure(batch("prompts", "a red ring\n"), 4, "vsa generate",
                 "hint: a file of prompts, one a line, has a name that ends in .txt");
  // The mark of UTF-8 and the ends of lines of Windows in JSON, too.
  std::filesystem::remove_all(dir.file("out"));
  EXPECT_EQ(batch("bom.jsonl", "\xEF\xBB\xBF{\"prompt\": \"a\"}\r\n{\"prompt\": \"b\"}\r\n",
                  {"--steps", "1"})
                .exit_code,
            0);
  EXPECT_EQ(manifest().size(), 2U);
}

TEST_F(CliEffect, P35_KeepIsOneMinusSparsity) {
  const auto share = [&](const Args& keep) {
    Args args = {"-p", "x", "-o", dir.file("a.y4m"), "--json"};
    args.insert(args.end(), keep.begin(), keep.end());
    return generate(args).json()["attention"]["kept_share"];
  };
  EXPECT_EQ(share({"--keep", "0.25"}), 0.25);
  EXPECT_EQ(share({"--keep", "0.25"}), share({"--sparsity", "0.75"}));
  EXPECT_EQ(share({"--keep", "1"}), 1.0);
}

TEST_F(CliEffect, FpsIsThatOfTheVideoAndOfTheLatents) {
  for (const char* name : {"a.y4m", "a.mp4", "a.gif"}) {
    const RunResult result =
        generate({"-p", "x", "-o", dir.file(name), "--fps", "12.5", "--latents", dir.file("l")});
    expect_success(result);
    EXPECT_THAT(result.out, HasSubstr(", 12.5 fps\n"));
    EXPECT_NEAR(video::read_video(dir.file(name)).value().fps, 12.5, 1e-9) << name;
  }
  ASSERT_EQ(run_vsa({"decode", dir.file("l"), "-o", dir.file("b.y4m")}).exit_code, 0);
  EXPECT_NEAR(video::read_video(dir.file("b.y4m")).value().fps, 12.5, 1e-9);
  ASSERT_EQ(run_vsa({"decode", dir.file("l"), "-o", dir.file("b.y4m"), "--fps", "3"}).exit_code, 0);
  EXPECT_NEAR(video::read_video(dir.file("b.y4m")).value().fps, 3.0, 1e-9);
}

TEST_F(CliEffect, AVideoOnStdout) {
  const Args args = {"-p", "x", "--seed", "1"};
  const auto with = [&](const Args& more) {
    Args all = args;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  RunOptions options;
  options.directory = dir.file("cwd");
  std::filesystem::create_directory(options.directory);
  for (const char* format : {"", "y4m", "mp4", "gif"}) {
    const std::string name = dir.file(std::string("a.") + (*format == 0 ? "y4m" : format));
    expect_success(generate(with({"-o", name})));
    const RunResult result = *format == 0
                                 ? generate(with({"-o", "-"}), options)
                                 : generate(with({"-o", "-", "--format", format}), options);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("video         standard output: 8 frames of 32x32"));
    // mp4 is compared by what it shows: the bytes of its encoder are not promised.
    write_file(dir.file("b" + std::filesystem::path(name).extension().string()), result.out);
    const auto want = video::read_video(name).value();
    const auto got =
        video::read_video(dir.file("b" + std::filesystem::path(name).extension().string())).value();
    EXPECT_EQ(got.frames.num_frames, want.frames.num_frames) << format;
    EXPECT_TRUE(std::string(format) == "mp4" || result.out == read_file(name)) << format;
  }
  EXPECT_TRUE(std::filesystem::is_empty(options.directory));

  expect_success(generate(with({"-o", dir.file("a.y4m"), "--latents", dir.file("l")})));
  EXPECT_TRUE(run_vsa({"decode", dir.file("l"), "-o", "-"}).out == read_file(dir.file("a.y4m")));
}

TEST_F(CliEffect, AVideoOnStdoutThatCannotBe) {
  const Args to_stdout = {"-p", "x", "-o", "-"};
  const auto with = [&](const Args& more) {
    Args all = to_stdout;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_failure(generate(with({"--json"})), 2, "vsa generate",
                 "--json: expected another --output");
  expect_failure(generate(with({"--compare"})), 2, "vsa generate",
                 "--compare: expected another --output");
  expect_failure(generate(with({"--format", "png"})), 2, "vsa generate",
                 "--format: expected y4m, mp4 or gif, got png");
  write_file(dir.file("l.txt"), "a\n");
  expect_failure(generate({"--batch", dir.file("l.txt"), "-o", "-"}), 2, "vsa generate",
                 "-o: expected {name} in it");
  // What is known before the run is said before it.
  RunOptions nowhere;
  nowhere.closed_stdout_fd = true;
  const RunResult refused = generate(to_stdout, nowhere);
  expect_failure(refused, 4, "vsa generate", "--output: expected a pipe or a file on standard");
  EXPECT_EQ(refused.err.find("step 1/1"), std::string::npos);
  RunOptions no_folder;
  no_folder.environment = {"TMPDIR=/nonexistent/folder"};
  expect_failure(generate(to_stdout, no_folder), 4, "vsa generate",
                 "cannot make a folder in /nonexistent/folder: No such file");
  // A full disk keeps the video, and says where.
  RunOptions full;
  full.stdout_path = "/dev/full";
  const RunResult lost = generate(to_stdout, full);
  EXPECT_EQ(lost.exit_code, 4);
  EXPECT_THAT(lost.err, HasSubstr("standard output: cannot write: No space left"));
  const std::string hint = "hint: the video is in ";
  const size_t at = lost.err.find(hint);
  ASSERT_NE(at, std::string::npos) << lost.err;
  const std::string kept =
      lost.err.substr(at + hint.size(), lost.err.size() - at - hint.size() - 1);
  EXPECT_TRUE(read_file(kept).starts_with("YUV4MPEG2"));
  std::filesystem::remove_all(std::filesystem::path(kept).parent_path());
  // A player that was closed is no news, and leaves nothing behind.
  RunOptions closed;
  closed.closed_stdout = true;
  EXPECT_EQ(generate(to_stdout, closed).exit_code, 4);
}

}  // namespace
}  // namespace vsa::test
