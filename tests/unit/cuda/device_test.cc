// Which memory a call of the CUDA backend takes. No device needed: what the runtime says of a
// pointer is made up here.
#include "src/cuda/support/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vsa::cuda {
namespace {

cudaPointerAttributes attributes(cudaMemoryType type, int device) {
  cudaPointerAttributes found{};
  found.type = type;
  found.device = device;
  return found;
}

TEST(CheckMemory, TakesMemoryOfTheCallsDevice) {
  int x = 0;
  for (const int device : {-1, 1}) {
    EXPECT_TRUE(check_memory("fine", {"k", &x}, attributes(cudaMemoryTypeDevice, 1), device).ok());
    EXPECT_TRUE(check_memory("fine", {"k", &x}, attributes(cudaMemoryTypeManaged, 0), device).ok());
  }
}

TEST(CheckMemory, RefusesHostMemoryAndThatOfAnotherDevice) {
  int x = 0;
  for (const cudaMemoryType type : {cudaMemoryTypeUnregistered, cudaMemoryTypeHost}) {
    const Status status = check_memory("fine", {"lut", &x}, attributes(type, 0), 0);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                testing::StartsWith("[fine] lut: expected device memory, got host memory at 0x"));
  }
  const Status status = check_memory("fine", {"k", &x}, attributes(cudaMemoryTypeDevice, 1), 0);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              testing::StartsWith("[fine] k: expected memory of device 0, which the call runs on, "
                                  "got memory of device 1 at 0x"));
}

TEST(NamedMemory, AGateThatIsAConstantHasNone) {
  float x = 0.0F;
  const ConstTensor tensor = ConstTensor::bhsd(&x, DType::kF32, {1, 1, 1, 1});
  EXPECT_EQ(NamedMemory("gate_fine", Gate::tensor(tensor)).data, &x);
  EXPECT_EQ(NamedMemory("gate_fine", Gate::one()).data, nullptr);
}

}  // namespace
}  // namespace vsa::cuda
