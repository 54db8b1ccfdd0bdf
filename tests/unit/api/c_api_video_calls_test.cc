// The C ABI of conv3d, pixel_norm, upsample and softmax: every field of their structs reaches the
// C++ call.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "vsa/c_api.h"
#include "vsa/vsa.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

/// Numbers, and a tensor of them in C and in C++.
struct Both {
  explicit Both(Dims extents, int step = 0) : dims(extents) {
    numbers.resize(static_cast<size_t>(dims.batch * dims.num_heads * dims.seq_len * dims.head_dim));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>((static_cast<int>(i) * 7 + step) % 11) - 4.0F;
    }
  }
  Tensor cpp() { return Tensor::bhsd(numbers.data(), DType::kF32, dims); }
  vsa_tensor c() {
    return vsa_bhsd(numbers.data(), VSA_F32, dims.batch, dims.num_heads, dims.seq_len,
                    dims.head_dim);
  }
  vsa_const_tensor read() { return vsa_read(c()); }

  Dims dims;
  std::vector<float> numbers;
};

template <class CArgs>
CArgs sized() {
  CArgs args{};
  args.struct_size = sizeof args;
  return args;
}
vsa_context context() { return sized<vsa_context>(); }  // of the reference backend

TEST(CApiVideoCalls, Conv3dFieldsReachTheirTwins) {
  Both x({1, 3, 12, 8}), weight({1, 16, 18, 8}, 3), out({1, 2, 12, 16}), want({1, 2, 12, 16});
  ASSERT_TRUE(conv3d(kReference, {.x = x.cpp(),
                                  .weight = weight.cpp(),
                                  .height = 4,
                                  .kernel_frames = 2,
                                  .kernel_edge = 3,
                                  .out = want.cpp()})
                  .ok());
  auto args = sized<vsa_conv3d_args>();
  args.x = x.read();
  args.weight = weight.read();
  args.height = 4;
  args.kernel_frames = 2;
  args.kernel_edge = 3;
  args.out = out.c();
  const vsa_context c = context();
  ASSERT_EQ(vsa_conv3d(&c, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(out.numbers, want.numbers);
}

TEST(CApiVideoCalls, PixelNormFieldsReachTheirTwins) {
  const Dims dims{1, 2, 3, 8};
  Both y(dims, 1), bias({.head_dim = 8}, 2), x(dims, 3), want_x(dims, 3), gamma({.head_dim = 8}, 5);
  Both out(dims), want(dims);
  ASSERT_TRUE(pixel_norm(kReference, {.y = y.cpp(),
                                      .bias = bias.cpp(),
                                      .x = want_x.cpp(),
                                      .residual = Residual::kReplace,
                                      .gamma = gamma.cpp(),
                                      .activation = Activation::kSilu,
                                      .out = want.cpp()})
                  .ok());
  auto args = sized<vsa_pixel_norm_args>();
  args.y = y.read();
  args.bias = bias.read();
  args.x = x.c();
  args.residual = VSA_RESIDUAL_REPLACE;
  args.gamma = gamma.read();
  args.activation = VSA_ACTIVATION_SILU;
  args.out = out.c();
  const vsa_context c = context();
  ASSERT_EQ(vsa_pixel_norm(&c, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(x.numbers, want_x.numbers);
  EXPECT_EQ(out.numbers, want.numbers);
}

TEST(CApiVideoCalls, UpsampleFieldsReachTheirTwins) {
  Both x({1, 2, 6, 16}), bias({.head_dim = 16}, 2), out({1, 4, 24, 8}), want({1, 4, 24, 8});
  ASSERT_TRUE(
      upsample(kReference,
               {.x = x.cpp(), .bias = bias.cpp(), .height = 2, .frames_each = 2, .out = want.cpp()})
          .ok());
  auto args = sized<vsa_upsample_args>();
  args.x = x.read();
  args.bias = bias.read();
  args.height = 2;
  args.frames_each = 2;
  args.out = out.c();
  const vsa_context c = context();
  ASSERT_EQ(vsa_upsample(&c, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(out.numbers, want.numbers);
}

TEST(CApiVideoCalls, SoftmaxFieldsReachTheirTwins) {
  const Dims dims{.seq_len = 3, .head_dim = 8};
  Both x(dims), out(dims), want(dims);
  ASSERT_TRUE(
      softmax(kReference, {.x = x.cpp(), .scale = 0.25F, .columns = 5, .out = want.cpp()}).ok());
  auto args = sized<vsa_softmax_args>();
  args.x = x.read();
  args.scale = 0.25F;
  args.columns = 5;
  args.out = out.c();
  const vsa_context c = context();
  ASSERT_EQ(vsa_softmax(&c, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(out.numbers, want.numbers);
}

}  // namespace
}  // namespace vsa::test
