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
  expect_failure(batch({"--attention", "dense"}), 2, "vsa generate", "made with other settings");
  EXPECT_EQ(batch({"--attention", "dense", "-o", dir.file("dense/{name}.y4m")}).exit_code, 0);
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
  std::filesystem::remove(list);
  expect_failure(batch(), 4, "vsa generate", "cannot be read");
}

}  // namespace
}  // namespace vsa::test
