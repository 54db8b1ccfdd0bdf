// Which engines of cuDNN the stage conv3d takes, and how threads share a pixel in pixel_norm. cuDNN
// makes plans for a device that is only described, so that this runs on machines without one.
#include <gtest/gtest.h>

#include "src/cuda/pixel_norm/pixel_norm.h"
#ifdef VSA_HAS_CUDNN
#include "src/cuda/conv3d/engines.h"
#endif

namespace vsa::cuda {
namespace {

TEST(PixelSplit, EveryPieceHasALaneAndTheVaesLanesAreAllBusy) {
  for (int64_t channels = kChannelPiece; channels <= kMaxChannels; channels += kChannelPiece) {
    const PixelSplit split = pixel_split(channels);
    EXPECT_LE(split.lanes, 32) << channels;
    EXPECT_LE(split.pieces, kMaxPixelPieces) << channels;
    EXPECT_GE(int64_t{split.lanes} * split.pieces * kChannelPiece, channels);
    EXPECT_LT(int64_t{split.lanes} * (split.pieces - 1) * kChannelPiece, channels);
  }
  for (const auto& [channels, lanes] : {std::pair{96, 4}, {192, 8}, {384, 16}}) {
    EXPECT_EQ(pixel_split(channels).lanes, lanes);
    EXPECT_EQ(pixel_split(channels).pieces, 3);
  }
}

#ifdef VSA_HAS_CUDNN

/// An H200, in the words of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
constexpr std::string_view kH200 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("totalGlobalMem":150754820096,"smClockRateKHz":1980000,"memClockRateKHz":3201000,)"
    R"("l2CacheSize":62914560,"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,)"
    R"("deviceName":"NVIDIA H200"})";

/// The convolutions of Wan's VAE at 480x832, four latent frames at a time.
std::vector<Convolution> convolutions_of_wan() {
  return {{.frames = 6,
           .height = 60,
           .width = 104,
           .c_in = 16,
           .c_out = 384,
           .kernel_frames = 3,
           .kernel_edge = 3},
          {.frames = 6,
           .height = 60,
           .width = 104,
           .c_in = 384,
           .c_out = 384,
           .kernel_frames = 3,
           .kernel_edge = 3},
          {.frames = 6,
           .height = 60,
           .width = 104,
           .c_in = 384,
           .c_out = 768,
           .kernel_frames = 3,
           .kernel_edge = 1},
          {.frames = 8,
           .height = 120,
           .width = 208,
           .c_in = 384,
           .c_out = 192,
           .kernel_frames = 1,
           .kernel_edge = 3},
          {.frames = 10,
           .height = 120,
           .width = 208,
           .c_in = 192,
           .c_out = 384,
           .kernel_frames = 3,
           .kernel_edge = 3},
          {.frames = 18,
           .height = 240,
           .width = 416,
           .c_in = 192,
           .c_out = 192,
           .kernel_frames = 3,
           .kernel_edge = 3},
          {.frames = 18,
           .height = 480,
           .width = 832,
           .c_in = 96,
           .c_out = 96,
           .kernel_frames = 3,
           .kernel_edge = 3},
          {.frames = 18,
           .height = 480,
           .width = 832,
           .c_in = 96,
           .c_out = 8,
           .kernel_frames = 3,
           .kernel_edge = 3}};
}

TEST(Conv3dEngines, ThereIsOneForEveryConvolutionOfWanOnADescribedDevice) {
  if (!cudnn().ok()) GTEST_SKIP() << cudnn().status().message();
  Result<Descriptor> h200 = Descriptor::make("test", CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  ASSERT_TRUE(h200.ok()) << h200.status().message();
  ASSERT_TRUE(h200->set("test", CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        std::ssize(kH200), kH200.data())
                  .ok());
  const Status described = h200->finalize("test");
  ASSERT_TRUE(described.ok()) << described.message();
  for (const cudnnDataType_t type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF}) {
    for (Convolution c : convolutions_of_wan()) {
      SCOPED_TRACE(testing::Message() << c.height << "x" << c.width << " " << c.c_in << " to "
                                      << c.c_out << " type " << type);
      c.type = type;
      const auto plans = plans_of("test", {.properties = &*h200}, c, 4);
      ASSERT_TRUE(plans.ok()) << plans.status().message();
      ASSERT_EQ(plans->size(), 4U);
      for (const Plan& plan : *plans) {
        EXPECT_LE(plan.workspace_bytes, kConvolutionWorkspaceBytes);
        EXPECT_TRUE(plan.name.starts_with("engine ")) << plan.name;
      }
      const auto taken = plan_of("test", {.properties = &*h200}, c);
      ASSERT_TRUE(taken.ok());
      const bool first = taken->name == plans->front().name;
      const bool passed_over = type == CUDNN_DATA_BFLOAT16 && c.c_in == 96 && c.c_out == 96;
      EXPECT_EQ(first, !passed_over) << taken->name;
      EXPECT_TRUE(first || taken->name.starts_with("engine 62,")) << taken->name;
    }
  }
}

TEST(Conv3dEngines, WhatCudnnRefusesIsNamed) {
  if (!cudnn().ok()) GTEST_SKIP() << cudnn().status().message();
  Result<Descriptor> tensor = Descriptor::make("conv3d", CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  ASSERT_TRUE(tensor.ok());
  const Status status = tensor->finalize("conv3d");  // nothing was set
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_TRUE(
      status.message().starts_with("[conv3d] cuDNN: cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM"))
      << status.message();
}

#endif  // VSA_HAS_CUDNN

}  // namespace
}  // namespace vsa::cuda
