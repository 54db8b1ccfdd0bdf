// `vsa --version` on machines whose CUDA libraries are missing or wrong. Where this build has the
// headers of a library, something else takes its place here; where it has not, that is the reason
// shown.
#include <fstream>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

class CliVendorLibraries : public testing::Test {
 protected:
  /// What `vsa --version` says of NCCL, whose interface has had one version for ten years.
  std::string nccl(const std::vector<std::string>& environment) {
    RunOptions options;
    options.environment = environment;
    const RunResult result = run_vsa({"--version", "--json"}, options);
    expect_success(result);
    const auto json = result.json();
    for (const auto& backend : json.at("backends")) {
      for (const auto& library : backend.at("libraries")) {
        if (library.at("name") == "NCCL") return library.at("detail");
      }
    }
    return "not listed";
  }
  void SetUp() override {
    fs::create_directories(dir.path() / "site/nccl/lib");
    const std::string said = nccl({});
    if (said.starts_with("expected headers") || said.find("not compiled in") != said.npos) {
      GTEST_SKIP() << said;
    }
  }
  void put(const std::string& fake) {
    fs::copy_file(fs::path(VSA_FAKE_LIBRARIES) / fake / "libvsafake.so.13", file);
  }

  TemporaryDirectory dir;
  const std::string site = dir.file("site");
  const fs::path file = dir.path() / "site/nccl/lib/libnccl.so.2";
  const std::string named = "VSA_CUDA_LIBRARIES=" + site;
};

TEST_F(CliVendorLibraries, AnotherVersionIsRefused) {
  put("other");
  EXPECT_THAT(nccl({named}), StartsWith("expected version 2, as the headers"));
  EXPECT_THAT(nccl({named}), testing::EndsWith("got 1.2.3 in " + file.string()));
}

TEST_F(CliVendorLibraries, OneWithoutTheFunctionIsRefused) {
  put("without");
  EXPECT_THAT(nccl({named}), HasSubstr("expected the function ncclGetVersion"));
}

TEST_F(CliVendorLibraries, AFolderInPlaceOfTheFileIsRefused) {
  fs::create_directories(file);
  EXPECT_THAT(nccl({named}), StartsWith("expected a shared library, got " + file.string()));
}

TEST_F(CliVendorLibraries, ABrokenOneInTheLoadersPathIsRefused) {
  std::ofstream(file) << "no library";
  EXPECT_THAT(nccl({"LD_LIBRARY_PATH=" + file.parent_path().string()}),
              StartsWith("expected a shared library, got libnccl.so.2, which cannot be loaded"));
}

TEST_F(CliVendorLibraries, StartsWithout) {
  // The text, too: one line for each library and no failure.
  fs::create_directories(file);
  RunOptions options;
  options.environment = {named};
  const RunResult result = run_vsa({"--version"}, options);
  expect_success(result);
  EXPECT_THAT(result.out, HasSubstr("\nlibraries of cuda:\n  cuBLAS "));
  EXPECT_THAT(result.out, HasSubstr("\n  NCCL       absent  expected a shared library, got "));
}

}  // namespace
}  // namespace vsa::test
