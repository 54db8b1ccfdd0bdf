// Strides and texts of tensors.
#include "vsa/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace vsa {
namespace {

TEST(Tensor, StridesOfBothOrders) {
  float x = 0.0F;
  const Dims dims{.batch = 2, .num_heads = 3, .seq_len = 5, .head_dim = 8};
  const Tensor bshd = Tensor::bshd(&x, DType::kF32, dims);
  EXPECT_EQ(bshd.shape, (std::array<int64_t, 4>{2, 3, 5, 8}));
  EXPECT_EQ(bshd.stride, (std::array<int64_t, 4>{120, 8, 24, 1}));
  const ConstTensor bhsd = ConstTensor::bhsd(&x, DType::kF32, dims);
  EXPECT_EQ(bhsd.shape, bshd.shape);
  EXPECT_EQ(bhsd.stride, (std::array<int64_t, 4>{120, 40, 8, 1}));
}

TEST(Tensor, T27_StridesAre64Bit) {
  const Dims dims{.batch = 2, .num_heads = 40, .seq_len = 210000, .head_dim = 128};
  const Tensor t = Tensor::bhsd(nullptr, DType::kBF16, dims);
  EXPECT_EQ(t.stride[0], int64_t{40} * 210000 * 128);
  EXPECT_EQ(t.num_elements(), 2150400000);
}

TEST(Tensor, ExtentsThatOverflowAreNoUndefinedBehaviour) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Tensor::bshd(nullptr, DType::kF32, {kMax, kMax, kMax, kMax}).shape[0], kMax);
}

TEST(Tensor, Text) {
  const Dims dims{.batch = 1, .num_heads = 12, .seq_len = 32768, .head_dim = 128};
  EXPECT_EQ(to_string(Tensor::bshd(nullptr, DType::kBF16, dims)), "bf16 [1,12,32768,128]");
  EXPECT_EQ(to_string(Tensor::bshd(nullptr, static_cast<DType>(9), dims)),
            "unknown [1,12,32768,128]");
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(name(DType::kF32), "f32");
  EXPECT_EQ(name(DType::kBF16), "bf16");
  EXPECT_EQ(name(DType::kF16), "f16");
  EXPECT_EQ(name(DType::kF64), "f64");
  EXPECT_EQ(size_bytes(DType::kF32), 4);
  EXPECT_EQ(size_bytes(DType::kBF16), 2);
  EXPECT_EQ(size_bytes(DType::kF16), 2);
  EXPECT_EQ(size_bytes(DType::kF64), 8);
  EXPECT_EQ(size_bytes(static_cast<DType>(-1)), 0);
}

}  // namespace
}  // namespace vsa
