// Libraries that are loaded at run time: where they are looked for, and which are refused.
#include "src/core/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace vsa {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kFakes = VSA_FAKE_LIBRARIES;

Result<LibraryVersion> fake_version(const SharedLibrary& library) {
  size_t (*version)() = nullptr;
  VSA_TRY(library.function("cublasLtGetVersion", &version));
  return static_cast<LibraryVersion>(version());
}

constexpr SharedLibrary::Wanted kFake{
    .name = "fakeBLAS", .file = "libvsafake.so.13", .headers = 130100, .version = fake_version};

/// The status of opening kFake in these places.
Status refused(const SharedLibrary::Places& places, const SharedLibrary::Wanted& wanted = kFake) {
  const Result<SharedLibrary> library = SharedLibrary::open(wanted, places);
  EXPECT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::kUnsupported);
  return library.status();
}

/// A folder in which something else has the library's name.
class SharedLibraryFile : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  const fs::path folder =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  const fs::path file = folder / kFake.file;
};

TEST(SharedLibrary, GivesFunctionsTheirType) {
  const Result<SharedLibrary> library = SharedLibrary::open(kFake, {.first = {kFakes / "right"}});
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_EQ(library->version(), 130200);
  EXPECT_EQ(text_of(library->version()), "13.2.0");
  EXPECT_EQ(library->path(), kFakes / "right" / kFake.file);
  int (*sum)(int, int) = nullptr;
  ASSERT_TRUE(library->function("vsa_fake_sum", &sum).ok());
  EXPECT_EQ(sum(40, 2), 42);
}

TEST(SharedLibrary, NamesAFunctionThatItLacks) {
  const Result<SharedLibrary> library = SharedLibrary::open(kFake, {.first = {kFakes / "right"}});
  ASSERT_TRUE(library.ok());
  int (*product)(int, int) = nullptr;
  const Status missing = library->function("vsa_fake_product", &product);
  EXPECT_EQ(product, nullptr);
  EXPECT_EQ(missing.code(), StatusCode::kUnsupported);
  EXPECT_EQ(missing.message(),
            "[vendor_library] fakeBLAS: expected the function vsa_fake_product, got a library "
            "without it: " +
                (kFakes / "right" / kFake.file).string());
}

TEST(SharedLibrary, TakesTheFirstFileOfThatName) {
  const auto version_in = [](const SharedLibrary::Places& places) {
    return SharedLibrary::open(kFake, places).value().version();
  };
  const fs::path right = kFakes / "right";
  const fs::path newer = kFakes / "newer";
  EXPECT_EQ(version_in({.first = {right, newer}}), 130200);
  EXPECT_EQ(version_in({.first = {newer, right}}), 139900);
  EXPECT_EQ(version_in({.first = {kFakes / "nowhere", newer}, .last = {right}}), 139900);
  EXPECT_EQ(version_in({.first = {kFakes / "nowhere"}, .last = {right}}), 130200);
}

TEST(SharedLibrary, AsksTheLoaderBeforeTheLastFolders) {
  // The C library has no version function of this kind, and every process has it loaded.
  const SharedLibrary::Wanted wanted{.name = "C",
                                     .file = "libc.so.6",
                                     .headers = 60000,
                                     .version = [](const SharedLibrary&) -> Result<LibraryVersion> {
                                       return LibraryVersion{60100};
                                     }};
  const fs::path folder = fs::path(testing::TempDir()) / "AsksTheLoader";
  fs::create_directories(folder / "libc.so.6");  // would be refused
  const Result<SharedLibrary> library = SharedLibrary::open(wanted, {.last = {folder}});
  fs::remove_all(folder);
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_TRUE(fs::path(library->path()).is_absolute()) << library->path();
  EXPECT_EQ(fs::path(library->path()).filename(), "libc.so.6");
}

TEST(SharedLibrary, SaysWhereItLookedInVain) {
  EXPECT_EQ(refused({.first = {"/first"}, .last = {"/last", "/least"}, .hint = "look elsewhere"})
                .message(),
            "[vendor_library] fakeBLAS: expected libvsafake.so.13 in one of: /first, the loader's "
            "path, /last, /least; found it in none; look elsewhere");
}

TEST(SharedLibrary, RefusesAnotherMajorVersion) {
  // Also where a right one lies in a later place.
  EXPECT_EQ(
      refused({.first = {kFakes / "other", kFakes / "right"}}).message(),
      "[vendor_library] fakeBLAS: expected version 13, as the headers that vsa was built with "
      "(13.1.0), got 1.2.3 in " +
          (kFakes / "other" / kFake.file).string());
}

TEST(SharedLibrary, RefusesOneWithoutAVersion) {
  EXPECT_EQ(refused({.first = {kFakes / "without"}}).message(),
            "[vendor_library] fakeBLAS: expected the function cublasLtGetVersion, got a library "
            "without it: " +
                (kFakes / "without" / kFake.file).string());
}

TEST(SharedLibrary, IsNotLookedForWithoutHeaders) {
  SharedLibrary::Wanted wanted = kFake;
  wanted.headers = 0;
  EXPECT_EQ(refused({.first = {kFakes / "right"}}, wanted).message(),
            "[vendor_library] fakeBLAS: expected headers when vsa was built, there were none");
}

TEST_F(SharedLibraryFile, IsNoFolder) {
  fs::create_directories(file);
  const std::string message = refused({.first = {folder, kFakes / "right"}}).message();
  EXPECT_THAT(message, HasSubstr("expected a shared library, got " + file.string()));
  EXPECT_THAT(message, HasSubstr("cannot be loaded"));
  EXPECT_EQ(refused({.last = {folder, kFakes / "right"}}).message(), message);
}

TEST_F(SharedLibraryFile, IsNoText) {
  std::ofstream(file) << "INPUT(libother.so)\n";
  EXPECT_THAT(refused({.first = {folder, kFakes / "right"}}).message(),
              HasSubstr("expected a shared library, got " + file.string()));
}

TEST_F(SharedLibraryFile, IsNoLinkToNowhere) {
  fs::create_symlink("nowhere", file);
  EXPECT_THAT(refused({.first = {folder, kFakes / "right"}}).message(),
              HasSubstr("expected a shared library, got " + file.string()));
}

}  // namespace
}  // namespace vsa
