// Parity of conv3d, pixel_norm, upsample and softmax, which tests/support/video_calls.cc says how
// to compare.
#include "tests/support/video_calls.h"

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class VideoParity : public testing::TestWithParam<BackendId> {
 protected:
  Context context(int num_threads = 0) const {
    return {.backend = GetParam(), .num_threads = num_threads};
  }
};
INSTANTIATE_TEST_SUITE_P(Each, VideoParity, testing::Values(BackendId::kReference, BackendId::kCpu),
                         [](const auto& each) { return std::string(name(each.param)); });

TEST_P(VideoParity, Conv3d) {
  for (const Conv3dCase& c : conv3d_cases()) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(c.name + " " + std::string(name(dtype)));
      expect_conv3d(c, dtype,
                    [&](Conv3dTensors& t) { throw_if_error(conv3d(context(), t.args(c))); });
    }
  }
}

TEST_P(VideoParity, PixelNorm) {
  for (const PixelNormCase& c : pixel_norm_cases()) {
    for (const DType dtype : kTokenDtypes) {
      for (const DType out : {dtype, DType::kF32}) {
        SCOPED_TRACE(c.name + " " + std::string(name(dtype)) + " to " + std::string(name(out)));
        expect_pixel_norm(c, pixel_norm_tensors(c, dtype, out), [&](PixelNormTensors& t) {
          throw_if_error(pixel_norm(context(), t.args(c)));
        });
      }
    }
  }
}

/// A pixel of zeros stays zeros, and a NaN in one makes all of its channels NaN, but no other's.
TEST_P(VideoParity, PixelNormOfZerosAndOfNaN) {
  TestTensor y = constant_tensor(DType::kF32, {.seq_len = 3, .head_dim = 16}, 0.0);
  y.set(0, 0, 1, 5, std::nan(""));
  y.set(0, 0, 2, 0, 2.0);
  const TestTensor gamma = constant_tensor(DType::kF32, {.head_dim = 16}, 1.5);
  TestTensor out(DType::kF32, {.seq_len = 3, .head_dim = 16});
  throw_if_error(pixel_norm(context(), {.y = y.view(), .gamma = gamma.view(), .out = out.view()}));
  for (int64_t d = 0; d < 16; ++d) {
    EXPECT_EQ(out.at(0, 0, 0, d), 0.0);
    EXPECT_TRUE(std::isnan(out.at(0, 0, 1, d))) << d;
    EXPECT_NEAR(out.at(0, 0, 2, d), d == 0 ? 6.0 : 0.0, 1e-6);
  }
}

TEST_P(VideoParity, Upsample) {
  for (const UpsampleCase& c : upsample_cases()) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(c.name + " " + std::string(name(dtype)));
      expect_upsample(c, dtype,
                      [&](UpsampleTensors& t) { throw_if_error(upsample(context(), t.args(c))); });
    }
  }
}

TEST_P(VideoParity, Softmax) {
  for (const SoftmaxCase& c : softmax_cases()) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(c.name + " " + std::string(name(dtype)));
      expect_softmax(c, dtype,
                     [&](SoftmaxTensors& t) { throw_if_error(softmax(context(), t.args(c))); });
    }
  }
}

TEST_P(VideoParity, TheSameBitsForAnyNumberOfThreads) {
  const Conv3dCase conv = conv3d_cases().front();
  const PixelNormCase norm = pixel_norm_cases().front();
  std::vector<TestTensor> conv_out, norm_out;
  for (const int threads : {1, 2, 7}) {
    expect_conv3d(conv, DType::kF32, [&](Conv3dTensors& t) {
      throw_if_error(conv3d(context(threads), t.args(conv)));
      conv_out.push_back(t.out);
    });
    expect_pixel_norm(norm, pixel_norm_tensors(norm, DType::kF32, DType::kF32),
                      [&](PixelNormTensors& t) {
                        throw_if_error(pixel_norm(context(threads), t.args(norm)));
                        norm_out.push_back(t.out);
                      });
    EXPECT_TRUE(same_bits(conv_out.back(), conv_out.front())) << threads;
    EXPECT_TRUE(same_bits(norm_out.back(), norm_out.front())) << threads;
  }
}

}  // namespace
}  // namespace vsa::test
