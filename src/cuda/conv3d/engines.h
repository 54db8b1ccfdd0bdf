// Which of cuDNN's engines computes a convolution: those that its heuristics name, in their order.
// Host-only; for sources that see its header.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/cuda/conv3d/cudnn.h"

namespace vsa::cuda {

/// Memory that an engine may use. Engines that copy a tensor first need more, and are passed over.
inline constexpr int64_t kConvolutionWorkspaceBytes = int64_t{32} << 20;

/// x [frames, height, width, c_in] and weight [c_out, kernel_frames, kernel_edge, kernel_edge,
/// c_in] in contiguous memory, as conv3d.h has them.
struct Convolution {
  int64_t frames = 0, height = 0, width = 0;
  int64_t c_in = 0, c_out = 0;
  int64_t kernel_frames = 1, kernel_edge = 1;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;

  bool operator==(const Convolution&) const = default;
};

/// What plans are made for: a device through its handle, or the description of one that need not be
/// there (a finalised CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), on which they cannot run.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

/// A way to compute a convolution, ready to run.
struct Plan {
  Descriptor plan;
  int64_t workspace_bytes = 0;
  std::string name;  ///< "engine 62, 2=3 13=1": cuDNN's number of the engine, and its knobs
};

/// The ids of x, weight and out in a plan.
inline constexpr std::array<int64_t, 3> kTensorIds{1, 2, 3};

/// The first `most` plans, in the order of cuDNN's heuristics, that give the same bits in every
/// run, sum in f32 without transforming the inputs, are compiled already, and need no more than
/// kConvolutionWorkspaceBytes. None if there is no such engine. The order depends on the version of
/// cuDNN and on the device, and on nothing else.
Result<std::vector<Plan>> plans_of(std::string_view operation, const PlanTarget& target,
                                   const Convolution& convolution, size_t most);

/// The plan that computes the convolution: the first of plans_of, unless one of the next two is of
/// engine 62. For 96 channels the heuristics name engine 22 first, which takes 10.7 ms on an H200
/// for 18 frames of 480x832, and engine 62 third, which takes 7.3 (tests/gpu/conv3d_plans_test.cc
/// prints all of them); the other convolutions of Wan's VAE get engine 62 anyway, or too late in
/// the list to gain.
/// @return Unsupported if there is no plan
Result<Plan> plan_of(std::string_view operation, const PlanTarget& target,
                     const Convolution& convolution);

struct ConvolutionMemory {
  const void* x = nullptr;
  const void* weight = nullptr;
  void* out = nullptr;
  void* workspace = nullptr;  ///< kConvolutionWorkspaceBytes
};

/// Enqueues a plan. Not with the same handle from two threads at a time.
Status enqueue_plan(const CallSite& at, cudnnHandle_t handle, const Plan& plan,
                    const ConvolutionMemory& memory);

/// Enqueues the convolution on the current device with its first plan, which is kept.
/// @return Unsupported (no plan) | DeviceError
Status enqueue_convolution(const CallSite& at, const Convolution& convolution,
                           const ConvolutionMemory& memory);

}  // namespace vsa::cuda
