// Which libraries the backends of this build name, and what becomes of a request for one.
#include "vsa/vendor_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/api/registry.h"

namespace vsa {
namespace {

using testing::HasSubstr;

/// What asking for a function gives, where it must not be given.
Status refused(BackendId id, std::string_view library, const char* name = "f") {
  void (*function)() = nullptr;
  const Status status = vendor_function(id, library, name, &function);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(function, nullptr);
  return status;
}

TEST(VendorLibrary, EachIsThereOrTheReasonIsSaid) {
  std::vector<std::string_view> names;
  for (const VendorLibraryInfo& info : vendor_libraries(BackendId::kCuda)) {
    names.push_back(info.name);
    EXPECT_THAT(info.detail, testing::Not(testing::IsEmpty())) << info.name;
    if (info.available) continue;
    const Status status = refused(BackendId::kCuda, info.name);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(), "[vendor_library] " + std::string(info.name) + ": " + info.detail);
  }
  EXPECT_THAT(names, testing::ElementsAre("cuBLAS", "cuDNN", "NCCL"));
  EXPECT_TRUE(vendor_libraries(BackendId::kCpu).empty());
  EXPECT_TRUE(vendor_libraries(BackendId::kHip).empty());
  EXPECT_TRUE(vendor_libraries(static_cast<BackendId>(9)).empty());
}

TEST(VendorLibrary, AbsentWithItsBackend) {
  if (find_backend(BackendId::kCuda) != nullptr) GTEST_SKIP() << "the cuda backend is compiled in";
  EXPECT_EQ(
      refused(BackendId::kCuda, "cuDNN").message(),
      "[vendor_library] cuDNN: expected the cuda backend, which is " + absence(BackendId::kCuda));
}

TEST(VendorLibrary, OnlyThoseOfTheBackend) {
  const Status unknown = refused(BackendId::kCuda, "cuFFT");
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.message(),
            "[vendor_library] library: expected one of cuBLAS, cuDNN, NCCL, got cuFFT");
  EXPECT_EQ(refused(BackendId::kCpu, "cuBLAS").message(),
            "[vendor_library] library: expected none, as the cpu backend has none, got cuBLAS");
  EXPECT_EQ(refused(BackendId::kHip, "cuBLAS").code(), StatusCode::kUnsupported);
  EXPECT_EQ(refused(static_cast<BackendId>(9), "cuBLAS").code(), StatusCode::kInvalidArgument);
}

TEST(VendorLibrary, AFunctionOfOneThatIsThere) {
  for (const VendorLibraryInfo& info : vendor_libraries(BackendId::kCuda)) {
    if (info.name != "cuBLAS") continue;
    if (!info.available) GTEST_SKIP() << info.detail;
    size_t (*version)() = nullptr;
    const Status status =
        vendor_function(BackendId::kCuda, info.name, "cublasLtGetVersion", &version);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(info.detail, testing::StartsWith(std::to_string(version() / 10000) + "."));
    EXPECT_THAT(refused(BackendId::kCuda, info.name, "cublasLtNoSuchThing").message(),
                HasSubstr("expected the function cublasLtNoSuchThing, got a library without it"));
  }
}

}  // namespace
}  // namespace vsa
