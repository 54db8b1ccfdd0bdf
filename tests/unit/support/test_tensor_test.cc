// The test tensors: orders, poison and guards.
#include "tests/support/test_tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/core/element.h"
#include "tests/support/compare.h"

namespace vsa::test {
namespace {

constexpr Dims kDims{.batch = 2, .num_heads = 2, .seq_len = 3, .head_dim = 8};

TEST(TestTensor, StartsAsPoisonInEveryDtype) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const TestTensor x(dtype, kDims);
    for (const double value : x.values()) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(TestTensor, HoldsTheSameValuesInEveryOrder) {
  const TestTensor want = normal_tensor(DType::kF32, kDims, 7);
  for (const Order order : kAllOrders) {
    const TestTensor x = normal_tensor(DType::kF32, kDims, 7, order);
    EXPECT_EQ(x.values(), want.values());
    EXPECT_TRUE(x.guards_intact());
  }
}

TEST(TestTensor, SeesWritesOutsideInEveryOrder) {
  for (const Order order : kAllOrders) {
    for (const int64_t outside : {int64_t{-1}, int64_t{-67}}) {
      TestTensor x = normal_tensor(DType::kF32, kDims, 7, order);
      static_cast<float*>(x.view().data)[outside] = 0.0F;
      EXPECT_FALSE(x.guards_intact()) << "offset " << outside;
    }
  }
  TestTensor x = normal_tensor(DType::kF32, kDims, 7);
  static_cast<float*>(x.view().data)[x.view().num_elements()] = 0.0F;
  EXPECT_FALSE(x.guards_intact()) << "one past the end";
  TestTensor view = normal_tensor(DType::kF32, kDims, 7, Order::kFused);
  static_cast<float*>(view.view().data)[kDims.num_heads * kDims.head_dim] = 0.0F;
  EXPECT_FALSE(view.guards_intact()) << "between the strides";
}

TEST(TestTensor, CopiesDoNotShareMemory) {
  const TestTensor x = normal_tensor(DType::kF32, kDims, 7);
  TestTensor copy = x;
  copy.set(0, 0, 0, 0, 42.0);
  EXPECT_NE(x.at(0, 0, 0, 0), 42.0);
}

TEST(FillPadding, TouchesOnlyPositionsOfNoTile) {
  const std::vector<int32_t> tile_len{2, 0, 1};
  const TilePlan plan = TilePlan::tiled(tile_len, 2).value();
  TestTensor x = constant_tensor(DType::kF32, {.seq_len = 6, .head_dim = 8}, 1.0);
  fill_padding(x, plan, 5.0);
  const double want[] = {1.0, 1.0, 5.0, 5.0, 1.0, 5.0};
  for (int64_t s = 0; s < 6; ++s) EXPECT_EQ(x.at(0, 0, s, 0), want[s]) << s;
}

}  // namespace
}  // namespace vsa::test
