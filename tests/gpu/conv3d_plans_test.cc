// The plans that cuDNN's heuristics name for the convolutions of Wan's VAE give the same values.
// Which of them the stage takes, and how long each takes, is printed.
#ifdef VSA_HAS_CUDNN
#include <fmt/format.h>

#include <cmath>

#include "src/cuda/conv3d/engines.h"
#include "tests/gpu/cases.h"
#include "vsa/half.h"

namespace vsa::test::gpu {
namespace {

constexpr int64_t kElementBytes = 2;

/// Device memory of so many bf16, random numbers that repeat.
DeviceBytes random_bf16(int64_t elements, double sigma, uint64_t seed) {
  constexpr int64_t kPeriod = 1 << 20;
  const TestTensor some = normal_tensor(DType::kF32, {.seq_len = kPeriod / 8, .head_dim = 8}, seed,
                                        Order::kBshd, sigma);
  std::vector<BF16> numbers;
  for (const double x : some.values()) numbers.emplace_back(static_cast<float>(x));
  DeviceBytes there(elements * kElementBytes);
  for (int64_t at = 0; at < elements; at += kPeriod) {
    const int64_t count = std::min(kPeriod, elements - at);
    expect_cuda(cudaMemcpy(there.data() + at * kElementBytes, numbers.data(),
                           static_cast<size_t>(count * kElementBytes), cudaMemcpyHostToDevice));
  }
  return there;
}

std::vector<double> first_of(const DeviceBytes& there, int64_t elements) {
  std::vector<BF16> numbers(static_cast<size_t>(elements));
  expect_cuda(cudaMemcpy(numbers.data(), there.data(),
                         static_cast<size_t>(elements * kElementBytes), cudaMemcpyDeviceToHost));
  std::vector<double> wide;
  for (const BF16 x : numbers) wide.push_back(static_cast<double>(static_cast<float>(x)));
  return wide;
}

double relative_difference(const std::vector<double>& got, const std::vector<double>& want) {
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(difference / size);
}

/// Milliseconds of one of `times` runs.
template <class Run>
float time_of(int times, const Run& run) {
  cudaEvent_t begin = nullptr, end = nullptr;
  expect_cuda(cudaEventCreate(&begin));
  expect_cuda(cudaEventCreate(&end));
  run();
  expect_cuda(cudaEventRecord(begin));
  for (int i = 0; i < times; ++i) run();
  expect_cuda(cudaEventRecord(end));
  expect_cuda(cudaEventSynchronize(end));
  float ms = 0.0F;
  expect_cuda(cudaEventElapsedTime(&ms, begin, end));
  expect_cuda(cudaEventDestroy(begin));
  expect_cuda(cudaEventDestroy(end));
  return ms / static_cast<float>(times);
}

/// At 480x832, four latent frames at a time.
std::vector<cuda::Convolution> convolutions_of_wan() {
  const auto conv = [](int64_t frames, int64_t scale, std::array<int64_t, 2> channels,
                       std::array<int64_t, 2> kernel) {
    return cuda::Convolution{.frames = frames,
                             .height = 60 * scale,
                             .width = 104 * scale,
                             .c_in = channels[0],
                             .c_out = channels[1],
                             .kernel_frames = kernel[0],
                             .kernel_edge = kernel[1]};
  };
  return {conv(6, 1, {16, 384}, {3, 3}),   conv(6, 1, {384, 384}, {3, 3}),
          conv(6, 1, {384, 768}, {3, 1}),  conv(8, 2, {384, 192}, {1, 3}),
          conv(10, 2, {192, 384}, {3, 3}), conv(10, 2, {384, 384}, {3, 3}),
          conv(16, 4, {384, 192}, {1, 3}), conv(18, 4, {192, 192}, {3, 3}),
          conv(16, 8, {192, 96}, {1, 3}),  conv(18, 8, {96, 96}, {3, 3}),
          conv(18, 8, {96, 8}, {3, 3})};
}

TEST(GpuConv3dPlans, EveryPlanForALayerOfWanGivesTheSameValues) {
  VSA_NEEDS_GPU;
  if (!cuda::cudnn().ok()) GTEST_SKIP() << cuda::cudnn().status().message();
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(cuda::cudnn()->cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  const DeviceBytes workspace(cuda::kConvolutionWorkspaceBytes);
  const cuda::CallSite at{.operation = "conv3d"};
  for (const cuda::Convolution& c : convolutions_of_wan()) {
    const int64_t taps = c.kernel_frames * c.kernel_edge * c.kernel_edge;
    const int64_t pixels = c.height * c.width;
    const int64_t out_elements = (c.frames - c.kernel_frames + 1) * pixels * c.c_out;
    const double flops = 2.0 * static_cast<double>(out_elements * taps * c.c_in);
    const DeviceBytes x = random_bf16(c.frames * pixels * c.c_in, 1.0, 1);
    const DeviceBytes weight =
        random_bf16(c.c_out * taps * c.c_in, 1 / std::sqrt(static_cast<double>(taps * c.c_in)), 2);
    const DeviceBytes out(out_elements * kElementBytes);
    constexpr size_t kMostPlans = 10;
    const auto plans = cuda::plans_of("conv3d", {.handle = handle}, c, kMostPlans);
    ASSERT_TRUE(plans.ok()) << plans.status().message();
    ASSERT_FALSE(plans->empty());
    fmt::print("{}x{}x{} {} to {}, kernel {}x{}x{}\n", c.frames, c.height, c.width, c.c_in, c.c_out,
               c.kernel_frames, c.kernel_edge, c.kernel_edge);
    std::vector<double> want;
    for (const cuda::Plan& plan : *plans) {
      const float ms = time_of(3, [&] {
        const Status status = cuda::enqueue_plan(at, handle, plan,
                                                 {.x = x.data(),
                                                  .weight = weight.data(),
                                                  .out = out.data(),
                                                  .workspace = workspace.data()});
        EXPECT_TRUE(status.ok()) << status.message();
      });
      const std::vector<double> got = first_of(out, std::min<int64_t>(out_elements, 1 << 20));
      if (want.empty()) want = got;
      // Both round sums that differ in the order of their terms to bf16.
      const double difference = relative_difference(got, want);
      EXPECT_LT(difference, 2e-3) << plan.name;
      fmt::print("  {:8.3f} ms {:6.1f} TFLOP/s  difference {:.1e}  workspace {:9}  {}\n", ms,
                 flops / static_cast<double>(ms) * 1e-9, difference, plan.workspace_bytes,
                 plan.name);
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
#endif  // VSA_HAS_CUDNN
