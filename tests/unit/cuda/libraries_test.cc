// Where cuBLAS, cuDNN and NCCL are looked for.
#include "src/cuda/support/libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vsa::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TEST(CudaLibraries, UsualPlaces) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const SharedLibrary::Places places = library_places(unset, unset);
    EXPECT_TRUE(places.first.empty());
    EXPECT_THAT(places.last, ElementsAre("/usr/local/cuda/lib64", "/usr/local/cuda/lib"));
  }
  EXPECT_THAT(library_places(nullptr, "/opt/cuda").last,
              ElementsAre("/opt/cuda/lib64", "/opt/cuda/lib"));
}

TEST(CudaLibraries, NamedFoldersAndThePackagesInThem) {
  const fs::path site = fs::path(testing::TempDir()) / "NamedFolders";
  for (const char* folder : {"nccl/lib", "cudnn/lib", "cudnn/include", "empty"}) {
    fs::create_directories(site / folder);
  }
  const std::string named = "/a::" + site.string() + ":/b:";
  const SharedLibrary::Places places = library_places(named.c_str(), nullptr);
  fs::remove_all(site);
  EXPECT_THAT(places.first, ElementsAre("/a", site, site / "cudnn/lib", site / "nccl/lib", "/b"));
}

TEST(CudaLibraries, UnknownName) {
  const Result<const SharedLibrary*> none = library("cuFFT");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vsa::cuda
