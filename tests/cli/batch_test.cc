// `vsa generate --batch`: names, manifest, resuming, parts.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliBatch : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");
  std::string list = dir.file("list.json");

  CliBatch() { TinyModel().write(model); }

  RunResult batch(const Args& more = {}) const {
    Args args = {"generate", "--model", model, "--steps", "1", "--batch", list};
    if (std::ranges::find(more, "-o") == more.end()) {
      args.insert(args.end(), {"-o", dir.file("out/{name}.y4m")});
    }
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }

  std::vector<nlohmann::json> manifest() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(read_file(dir.file("out/manifest.jsonl")));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

TEST_F(CliBatch, MakesEveryEntryOfEveryFormAndResumes) {
  const std::string a = R"({"id": 0, "prompt": "a ring", "seed": 7, "colour": "red"})";
  const std::string b = R"({"name": "star-1", "prompt": "a star"})";
  for (const std::string& text :
       {"[" + a + "," + b + "]", "{\"prompts\": [" + a + "," + b + "]}", a + "\n\n" + b + "\n"}) {
    std::filesystem::remove_all(dir.file("out"));
    write_file(list, text);
    const RunResult result = batch();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(std::ranges::count(result.out, '\n'), 2);
    const auto lines = manifest();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0]["name"], "0");
    EXPECT_EQ(lines[0]["seed"], 7);
    EXPECT_EQ(lines[0]["entry"]["colour"], "red");
    EXPECT_EQ(lines[0]["video"], dir.file("out/0.y4m"));
    EXPECT_EQ(lines[1]["name"], "star-1");
    EXPECT_EQ(lines[1]["seed"], 1);  // its position
  }

  // What is there is not made again; what is gone, or was cut short, is.
  EXPECT_EQ(batch().out, "");
  std::filesystem::remove(dir.file("out/0.y4m"));
  const RunResult again = batch();
  EXPECT_EQ(again.json()["name"], "0");
  EXPECT_THAT(again.err, testing::HasSubstr("1 videos made, 1 were there already"));
}

TEST_F(CliBatch, AnEntryIsTheSameVideoAsARunOfItsOwn) {
  write_file(list, R"([{"prompt": "a ring", "seed": 7}])");
  ASSERT_EQ(batch().exit_code, 0);
  const std::string alone = dir.file("alone.y4m");
  expect_success(run_vsa({"generate", "--model", model, "--steps", "1", "--prompt", "a ring",
                          "--seed", "7", "-o", alone}));
  EXPECT_TRUE(read_file(alone) == read_file(dir.file("out/00000.y4m")));
}

TEST_F(CliBatch, OtherSettingsNeedAnotherManifest) {
  write_file(list, R"([{"prompt": "a ring"}])");
  ASSERT_EQ(batch().exit_code, 0);
  const std::string weights = model + "/transformer/diffusion_pytorch_model";
  write_file(weights + ".ema.safetensors", read_file(weights + ".safetensors"));
  for (const Args& other : {Args{"--attention", "dense"},
                            {"--guidance", "2"},
                            {"--variant", "ema"},
                            {"--upscale", "2"},
                            {"--no-metadata"}}) {
    expect_failure(batch(other), 2, "vsa generate", "made with other settings");
  }
  EXPECT_EQ(batch({"--attention", "dense", "-o", dir.file("dense/{name}.y4m")}).exit_code, 0);
}

TEST_F(CliBatch, NothingBeginsIfAnEntryCannotRun) {
  const auto fails = [&](const std::string& second, const std::string& text,
                         const Args& more = {}) {
    write_file(list, R"([{"prompt": "a ring"}, )" + second + "]");
    expect_failure(batch(more), 2, "vsa generate", text);
    EXPECT_FALSE(std::filesystem::exists(dir.file("out")));
  };
  const std::string place = "--batch " + list + ": entry 00001: ";
  fails(R"({"prompt": "b", "frames": 15})", place + "frames: expected a multiple of 2");
  fails(R"({"prompt": "b", "steps": 2000})", place + "steps: expected 1 to 1000, got 2000");
  fails(R"({"prompt": "b", "topk": 999})", place + "topk: expected 1 to ");
  fails(R"({"prompt": "b"})", "error: --frames: expected a multiple of 2", {"--frames", "15"});
}

TEST_F(CliBatch, NoTwoFilesAreTheSame) {
  const std::string before =
      R"([{"prompt": "a ring", "name": "list"}, {"prompt": "b", "name": "manifest"}])";
  write_file(list, before);
  expect_failure(batch({"-o", dir.file("{name}.y4m"), "--report", dir.file("{name}.json")}), 2,
                 "vsa generate", "--report of list: expected another file than --batch");
  expect_failure(batch({"-o", dir.file("{name}.y4m"), "--report", dir.file("{name}.jsonl")}), 2,
                 "vsa generate", "--report of manifest: expected another file than --manifest");
  expect_failure(batch({"--manifest", list}), 2, "vsa generate",
                 "--manifest: expected another file than --batch");
  EXPECT_EQ(read_file(list), before);
}

TEST_F(CliBatch, WhatHasNoEffectOrIsMisspeltIsSaid) {
  write_file(list,
             R"({"prompts": [{"prompt": "a ring", "stpes": 3, "colour": "red"}], "steps": 3})");
  const RunResult result = batch();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              testing::HasSubstr("warning: --batch: steps beside prompts has no effect\n"));
  EXPECT_THAT(result.err,
              testing::HasSubstr("warning: stpes: has no effect in an entry; steps is"));
  EXPECT_EQ(result.err.find("colour"), std::string::npos);
}

TEST_F(CliBatch, AManifestOfOtherLinesIsRefused) {
  write_file(list, R"([{"prompt": "a ring"}])");
  ASSERT_EQ(batch().exit_code, 0);
  const std::string path = dir.file("out/manifest.jsonl");
  const nlohmann::json right = nlohmann::json::parse(read_file(path));
  for (const char* key : {"name", "prompt", "negative_prompt", "seed", "video", "settings"}) {
    nlohmann::json wrong = right;
    wrong[key] = nullptr;
    write_file(path, wrong.dump() + "\n");
    expect_failure(batch(), 4, "vsa generate", "got another file");
    wrong.erase(key);
    write_file(path, wrong.dump() + "\n");
    expect_failure(batch(), 4, "vsa generate", "got another file");
  }
}

TEST_F(CliBatch, LinesThatWereCutShortAreMadeAgain) {
  write_file(list, R"([{"prompt": "a ring"}])");
  ASSERT_EQ(batch().exit_code, 0);
  const std::string path = dir.file("out/manifest.jsonl");
  const std::string whole = read_file(path);
  // A crash in mid-line, then the batch goes on, and once more.
  for (const size_t length : {whole.size() - 20, whole.size() - 1, size_t{12}, size_t{3}}) {
    write_file(path, whole.substr(0, length));
    const RunResult again = batch();
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(batch().exit_code, 0) << length;
    EXPECT_EQ(batch().out, "") << length;
  }
}

TEST_F(CliBatch, P22_AFileOfOneLineIsNoManifest) {
  write_file(list, R"([{"prompt": "a ring"}])");
  for (const std::string& text :
       {std::string("my notes"), std::string("[1, 2]"), std::string("{}")}) {
    write_file(dir.file("notes.txt"), text);  // without a new line at its end
    expect_failure(batch({"--manifest", dir.file("notes.txt")}), 4, "vsa generate",
                   "got another file");
    EXPECT_EQ(read_file(dir.file("notes.txt")), text);
  }
}

TEST_F(CliBatch, FilesWithoutAnEndAreRefused) {
  write_file(list, R"([{"prompt": "a ring"}])");
  expect_failure(batch({"--manifest", "/dev/full"}), 4, "vsa generate", "more than 256 MiB");
  expect_failure(run_vsa({"generate", "--batch", "/dev/zero", "-o", dir.file("{name}.y4m")}), 4,
                 "vsa generate", "--batch /dev/zero: cannot be read, more than 256 MiB");
}

TEST_F(CliBatch, PathsThatAreNotUtf8AreKnownAgain) {
  write_file(list, R"([{"prompt": "a ring"}])");
  const std::string other = dir.file("m\xFF");
  std::filesystem::rename(model, other);
  const Args args = {"generate", "--model", other,
                     "--steps",  "1",       "--batch",
                     list,       "-o",      dir.file("o\xFE/{name}.y4m")};
  EXPECT_EQ(run_vsa(args).exit_code, 0);
  const RunResult again = run_vsa(args);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, "");
}

TEST_F(CliBatch, PartsShareOneManifest) {
  write_file(list, R"([{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"}])");
  ASSERT_EQ(batch({"--part", "2/2"}).exit_code, 0);
  ASSERT_EQ(manifest().size(), 1U);
  EXPECT_EQ(manifest()[0]["prompt"], "b");
  ASSERT_EQ(batch({"--part", "1/2"}).exit_code, 0);
  EXPECT_EQ(manifest().size(), 3U);
  EXPECT_EQ(batch().out, "");
}

TEST_F(CliBatch, FramesReportsAndContactSheets) {
  write_file(list, R"([{"name": "x", "prompt": "a"}])");
  ASSERT_EQ(batch({"-o", dir.file("o/{name}/%d.png"), "--report", dir.file("o/r/{name}.json"),
                   "--contact-sheet", dir.file("o/{name}-sheet.png")})
                .exit_code,
            0);
  for (const char* file : {"o/x/0.png", "o/x/7.png", "o/r/x.json", "o/x-sheet.png"}) {
    EXPECT_TRUE(std::filesystem::exists(dir.file(file))) << file;
  }
}

TEST_F(CliBatch, WrongFilesAndOptions) {
  const auto fails = [&](int code, const std::string& file, const std::string& text,
                         const Args& more = {}) {
    write_file(list, file);
    expect_failure(batch(more), code, "vsa generate", text);
  };
  const std::string good = R"([{"prompt": "a"}])";
  fails(4, "", "expected a list of prompts");
  fails(4, "[]", "expected a list of prompts");
  fails(4, "3", "expected a list of prompts");
  fails(4, "[3]", "entry 0: expected an object");
  fails(4, "{\"prompt\": \"a\"}\nnonsense\n", "line 2: expected JSON");
  fails(4, R"([{"seed": 1}])", "entry 0: prompt: expected a text");
  fails(4, R"([{"prompt": 1}])", "prompt: expected a string");
  fails(4, R"([{"prompt": "a", "seed": -2}])", "seed: expected a whole number from 0 to");
  fails(4, R"([{"prompt": "a", "seed": 18446744073709551615}])",
        "seed: expected a whole number from 0 to");
  fails(4, R"([{"prompt": " \n"}])", "entry 0: prompt: expected a text");
  fails(2, good, "--seed: expected room", {"--seed", "9223372036854775807"});
  fails(4, R"([{"prompt": "a", "seed": 1.5}])", "seed: expected a whole number from 0 to");
  fails(4, R"([{"prompt": "a", "name": "../a"}])", "name: expected letters");
  fails(4, R"([{"prompt": "a", "name": ""}])", "name: expected letters");
  fails(4, R"([{"prompt": "a", "id": 1}, {"prompt": "b", "id": "1"}])", "expected a new one");
  fails(2, good, "-o: expected {name}", {"-o", dir.file("a.mp4")});
  fails(2, good, "{name} in every output path", {"--report", dir.file("r.json")});
  fails(2, good, "--part: expected I/N", {"--part", "3/2"});
  fails(2, good, "--part: expected I/N", {"--part", "0/2"});
  fails(2, good, "--part: expected I/N", {"--part", "1"});
  fails(2, good, "--compare: expected no --batch", {"--compare"});
  fails(2, good, "--prompt: expected no --batch", {"--prompt", "x"});
  fails(4, "[\n{\"prompt\": \"a\"},\n{\"prompt\" \"b\"}\n]\n",
        "line 3: expected JSON, got a syntax error");
  fails(4, "[{\"prompt\": \"a\"},]", "line 1: expected JSON, got a syntax error");
  std::filesystem::remove(list);
  expect_failure(batch(), 4, "vsa generate", "cannot be read");
  std::filesystem::create_directory(list);
  expect_failure(batch(), 4, "vsa generate", "cannot be read, a folder");
  std::filesystem::remove(list);
  write_file(list, good);
  expect_failure(batch({"--manifest", dir.path().string()}), 4, "vsa generate",
                 "cannot be read, a folder");
}

}  // namespace
}  // namespace vsa::test
