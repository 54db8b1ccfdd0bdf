// What the calls on videos must give, for any backend: conv3d, pixel_norm, upsample; and softmax.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/test_tensor.h"
#include "vsa/vsa.h"

namespace vsa::test {

struct Conv3dCase {
  std::string name;
  int64_t frames, height, width;
  int64_t c_in, c_out;
  int64_t kernel_frames, kernel_edge;
};
/// Kernels of all kinds that Wan's VAE has, sizes that no block divides, more channels than a
/// block.
std::vector<Conv3dCase> conv3d_cases();
struct Conv3dTensors {
  TestTensor x, weight, out;
  Conv3dArgs args(const Conv3dCase& c);
};
/// Compares what `run` leaves in `out` with the reference in fp64, within a derived bound; so do
/// those below.
void expect_conv3d(const Conv3dCase& c, DType dtype,
                   const std::function<void(Conv3dTensors&)>& run);

struct PixelNormCase {
  std::string name;
  Dims dims;
  bool bias, x, gamma, silu, out;
  Residual residual = Residual::kAdd;
  int64_t channels_out = 0;  ///< fewer than those of y; 0: as many
  Order order = Order::kBhsd;
};
std::vector<PixelNormCase> pixel_norm_cases();
struct PixelNormTensors {
  TestTensor y, bias, x, gamma, out;
  PixelNormArgs args(const PixelNormCase& c);
};
PixelNormTensors pixel_norm_tensors(const PixelNormCase& c, DType dtype, DType out_dtype);
void expect_pixel_norm(const PixelNormCase& c, const PixelNormTensors& in,
                       const std::function<void(PixelNormTensors&)>& run);

struct UpsampleCase {
  std::string name;
  int64_t frames, height, width, channels;  ///< of out
  int64_t frames_each;
  bool bias;
};
std::vector<UpsampleCase> upsample_cases();
struct UpsampleTensors {
  TestTensor x, bias, out;
  UpsampleArgs args(const UpsampleCase& c);
};
void expect_upsample(const UpsampleCase& c, DType dtype,
                     const std::function<void(UpsampleTensors&)>& run);

struct SoftmaxCase {
  std::string name;
  Dims dims;
  int64_t columns;
  float scale;
};
std::vector<SoftmaxCase> softmax_cases();
struct SoftmaxTensors {
  TestTensor x, out;
  SoftmaxArgs args(const SoftmaxCase& c);
};
void expect_softmax(const SoftmaxCase& c, DType out_dtype,
                    const std::function<void(SoftmaxTensors&)>& run);

}  // namespace vsa::test
