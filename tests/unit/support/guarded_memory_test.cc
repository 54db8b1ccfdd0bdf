// The memory that hostile calls get must notice every kind of stray write.
#include "tests/support/guarded_memory.h"

#include <gtest/gtest.h>

namespace vsa::test {
namespace {

/// Two rows of 3 floats, 5 apart.
Tensor strided(std::byte* data) {
  Tensor t = Tensor::bhsd(data, DType::kF32, {1, 1, 2, 3});
  t.stride[2] = 5;
  return t;
}

TEST(GuardedMemory, AcceptsWhatIsWrittenToAnOutput) {
  GuardedMemory memory;
  auto* x = reinterpret_cast<float*>(memory.allocate(8 * 4, std::byte{0}));
  memory.remember();
  EXPECT_TRUE(memory.as_remembered());
  for (const int i : {0, 1, 2, 5, 6, 7}) x[i] = 1.0F;
  EXPECT_FALSE(memory.as_remembered());
  memory.accept(strided(reinterpret_cast<std::byte*>(x)));
  EXPECT_TRUE(memory.as_remembered());
}

TEST(GuardedMemory, NoticesAWriteBetweenTheRows) {
  GuardedMemory memory;
  std::byte* x = memory.allocate(8 * 4, std::byte{0});
  memory.remember();
  reinterpret_cast<float*>(x)[3] = 1.0F;
  memory.accept(strided(x));
  EXPECT_FALSE(memory.as_remembered());
}

TEST(GuardedMemory, NoticesAWriteToAnotherBlock) {
  GuardedMemory memory;
  std::byte* x = memory.allocate(8 * 4, std::byte{0});
  std::byte* input = memory.allocate(16, std::byte{0});
  memory.remember();
  input[15] = std::byte{1};
  memory.accept(strided(x));
  EXPECT_FALSE(memory.as_remembered());
}

}  // namespace
}  // namespace vsa::test
