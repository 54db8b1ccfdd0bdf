// What the CUDA backend says before and after a launch. No device needed.
#include "src/cuda/support/launch.h"

#include <gtest/gtest.h>

namespace vsa::cuda {
namespace {

TEST(Check, FailuresAreStatuses) {
  const Status status = check("pool", cudaErrorInvalidDevice);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_EQ(status.message().find("[pool] device: expected success, got cudaErrorInvalidDevice"),
            0U)
      << status.message();
}

TEST(Check, OutOfMemoryHasItsOwnCode) {
  EXPECT_EQ(check("pool", cudaErrorMemoryAllocation).code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(check("pool", cudaSuccess).ok());
}

TEST(CheckGrid, RefusesWhatNoDeviceTakes) {
  EXPECT_TRUE(check_grid("coarse", dim3(0x7FFFFFFFU, 65535, 65535)).ok());
  for (const dim3& grid : {dim3(0x80000000U), dim3(1, 65536), dim3(1, 1, 65536)}) {
    const Status status = check_grid("coarse", grid);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message().find("[coarse] batch, heads, tiles: expected a grid"), 0U)
        << status.message();
  }
}

}  // namespace
}  // namespace vsa::cuda
