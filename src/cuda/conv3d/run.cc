// Runs a convolution with cuDNN: a handle for each device, and the plans that were made for it.
// Host-only.
#ifdef VSA_HAS_CUDNN
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "src/cuda/conv3d/engines.h"

namespace vsa::cuda {
namespace {

/// A device's handle, and the plans of the convolutions that ran on it. Lasts until the process
/// ends: the driver may be gone by the time that objects of static storage are destroyed.
struct PerDevice {
  cudnnHandle_t handle = nullptr;
  std::vector<std::pair<Convolution, Plan>> plans;
};

Result<const Plan*> known_plan(const CallSite& at, PerDevice& device, const Convolution& c) {
  const auto known = std::ranges::find(device.plans, c, &std::pair<Convolution, Plan>::first);
  if (known != device.plans.end()) return &known->second;
  Result<Plan> plan = plan_of(at.operation, {.handle = device.handle}, c);
  VSA_TRY(plan.status());
  return &device.plans.emplace_back(c, std::move(*plan)).second;
}

}  // namespace

Status enqueue_plan(const CallSite& at, cudnnHandle_t handle, const Plan& plan,
                    const ConvolutionMemory& memory) {
  Result<Descriptor> pack = Descriptor::make(at.operation, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  VSA_TRY(pack.status());
  const std::array<void*, 3> data{const_cast<void*>(memory.x), const_cast<void*>(memory.weight),
                                  memory.out};
  VSA_TRY(pack->set(at.operation, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3,
                    kTensorIds.data()));
  VSA_TRY(pack->set(at.operation, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3,
                    data.data()));
  VSA_TRY(pack->set(at.operation, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                    &memory.workspace));
  VSA_TRY(pack->finalize(at.operation));
  VSA_TRY(check_cudnn(at.operation, "cudnnSetStream", cudnn()->cudnnSetStream(handle, at.stream)));
  return check_cudnn(at.operation, "cudnnBackendExecute of " + plan.name,
                     cudnn()->cudnnBackendExecute(handle, plan.plan.raw(), pack->raw()));
}

Status enqueue_convolution(const CallSite& at, const Convolution& convolution,
                           const ConvolutionMemory& memory) {
  VSA_TRY(cudnn().status());
  int number = 0;
  VSA_TRY(check(at.operation, cudaGetDevice(&number)));
  static auto& mutex = *new std::mutex;
  static auto& devices = *new std::vector<PerDevice>;
  // A handle has one stream at a time, so the lock lasts until the plan is enqueued.
  const std::scoped_lock lock(mutex);
  if (devices.size() <= static_cast<size_t>(number)) {
    devices.resize(static_cast<size_t>(number) + 1);
  }
  PerDevice& device = devices[static_cast<size_t>(number)];
  if (device.handle == nullptr) {
    VSA_TRY(check_cudnn(at.operation, "cudnnCreate", cudnn()->cudnnCreate(&device.handle)));
  }
  const Result<const Plan*> plan = known_plan(at, device, convolution);
  VSA_TRY(plan.status());
  return enqueue_plan(at, device.handle, **plan, memory);
}

}  // namespace vsa::cuda
#endif  // VSA_HAS_CUDNN
