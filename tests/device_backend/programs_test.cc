// What the command makes of a backend on a device that it does not know: it copies to it and back.
#include <gmock/gmock.h>

#include "cli/common/device.h"
#include "tests/device_backend/device.h"
#include "tests/support/calls.h"
#include "vsa/device_memory.h"

namespace vsa::test {
namespace {

constexpr BackendId kFake = BackendId::kHip;

/// Runs the call with tensors in host memory, and compares with the CPU backend.
template <class Setup, class Args>
void expect_copied(Status (*stage)(const Context&, const Args&), int num_copies) {
  Setup want;
  ASSERT_TRUE(want.run().ok());
  Setup got;
  FakeDevice device;
  device.close();
  const Status status = cli::on_backend({.backend = kFake}, stage, got.args);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(device.num_calls, 1);
  EXPECT_EQ(device.num_queries, 1);
  EXPECT_EQ(device.num_copies, num_copies);
  EXPECT_GT(device.num_waits, 0);
  EXPECT_TRUE(got.arena.bytes() == want.arena.bytes());
}

/// Of each call its tensors once, a table as indices and counts.
TEST(DevicePrograms, TheCommandCopiesToAnyDeviceAndBack) {
  expect_copied<TileCall>(vsa::tile, 2);
  expect_copied<UntileCall>(vsa::untile, 2);
  expect_copied<NormRopePoolCall>(vsa::norm_rope_pool, 7);
  expect_copied<LinearCall>(vsa::linear, 4);
  expect_copied<ResidualNormCall>(vsa::residual_norm, 7);
  expect_copied<Conv3dCall>(vsa::conv3d, 3);
  expect_copied<PixelNormCall>(vsa::pixel_norm, 6);
  expect_copied<UpsampleCall>(vsa::upsample, 3);
  expect_copied<SoftmaxCall>(vsa::softmax, 2);
  expect_copied<RelativeAttentionCall>(vsa::relative_attention, 5);
  expect_copied<PoolCall>(vsa::pool, 2);
  expect_copied<CoarseCall>(vsa::coarse, 5);
  expect_copied<SelectCall>(vsa::select, 3);
  expect_copied<FineCall>(vsa::fine, 7);
  expect_copied<CombineCall>(vsa::combine, 4);
  expect_copied<AttentionCall>(vsa::attention_forward, 13);
  expect_copied<PoolBackwardCall>(vsa::pool_backward, 2);
  expect_copied<CoarseBackwardCall>(vsa::coarse_backward, 7);
  expect_copied<FineBackwardCall>(vsa::fine_backward, 11);
  expect_copied<CombineBackwardCall>(vsa::combine_backward, 8);
  expect_copied<AttentionBackwardCall>(vsa::attention_backward, 14);
}

TEST(DevicePrograms, MemoryIsOnlyForBackendsThatHaveSome) {
  const Status status = DeviceMemory::of(BackendId::kCpu).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "[device_memory] backend: expected one with memory of its own, got cpu");
}

}  // namespace
}  // namespace vsa::test
