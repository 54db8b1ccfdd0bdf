// Parity of conv3d, pixel_norm, upsample and softmax of the CUDA backend with the fp64 reference.
#include "tests/support/video_calls.h"

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"
#include "vsa/vendor_library.h"

namespace vsa::test::gpu {
namespace {

/// A tensor in device memory in the place of one on the host; an empty one stays empty.
class There {
 public:
  explicit There(TestTensor& host) : host_(host) {}
  void place(ConstTensor& argument) {
    if (argument.empty()) return;
    device_.emplace(ConstTensor(host_.view()));
    argument = device_->view();
  }
  void place(Tensor& argument) {
    if (argument.empty()) return;
    device_.emplace(ConstTensor(host_.view()));
    argument = device_->view();
  }
  void download() const {
    if (device_) device_->download(host_.view());
  }

 private:
  TestTensor& host_;
  std::optional<DeviceTensor> device_;
};

void run_there(Conv3dTensors& t, const Conv3dCase& c) {
  Conv3dArgs args = t.args(c);
  There x(t.x), weight(t.weight), out(t.out);
  x.place(args.x);
  weight.place(args.weight);
  out.place(args.out);
  run_on_gpu([&](const Context& context) { return conv3d(context, args); });
  out.download();
}

void run_there(PixelNormTensors& t, const PixelNormCase& c) {
  PixelNormArgs args = t.args(c);
  There y(t.y), bias(t.bias), x(t.x), gamma(t.gamma), out(t.out);
  y.place(args.y);
  bias.place(args.bias);
  x.place(args.x);
  gamma.place(args.gamma);
  out.place(args.out);
  run_on_gpu([&](const Context& context) { return pixel_norm(context, args); });
  x.download();
  out.download();
}

void run_there(UpsampleTensors& t, const UpsampleCase& c) {
  UpsampleArgs args = t.args(c);
  There x(t.x), bias(t.bias), out(t.out);
  x.place(args.x);
  bias.place(args.bias);
  out.place(args.out);
  run_on_gpu([&](const Context& context) { return upsample(context, args); });
  out.download();
}

void run_there(SoftmaxTensors& t, const SoftmaxCase& c) {
  SoftmaxArgs args = t.args(c);
  There x(t.x), out(t.out);
  x.place(args.x);
  out.place(args.out);
  run_on_gpu([&](const Context& context) { return softmax(context, args); });
  out.download();
}

#define VSA_NEEDS_CUDNN \
  if (const Status none = no_cudnn(); !none.ok()) GTEST_SKIP() << none.message()
Status no_cudnn() {
  for (const VendorLibraryInfo& library : vendor_libraries(BackendId::kCuda)) {
    if (library.name == "cuDNN" && library.available) return {};
  }
  return unsupported("no cuDNN");
}

TEST(GpuConv3d, EveryKernelAndDtype) {
  VSA_NEEDS_GPU;
  VSA_NEEDS_CUDNN;
  for (const Conv3dCase& c : conv3d_cases()) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(c.name + " " + std::string(name(dtype)));
      expect_conv3d(c, dtype, [&](Conv3dTensors& t) { run_there(t, c); });
    }
  }
}

/// The channels of Wan's VAE, on small frames.
TEST(GpuConv3d, TheChannelsOfWan) {
  VSA_NEEDS_GPU;
  VSA_NEEDS_CUDNN;
  for (const auto& [c_in, c_out, frames, edge] : {std::array<int64_t, 4>{16, 384, 3, 3},
                                                  {384, 384, 3, 3},
                                                  {192, 384, 3, 3},
                                                  {192, 192, 3, 3},
                                                  {96, 96, 3, 3},
                                                  {96, 8, 3, 3},
                                                  {384, 768, 3, 1},
                                                  {192, 96, 1, 3}}) {
    SCOPED_TRACE(testing::Message() << c_in << " to " << c_out);
    const Conv3dCase c{"Wan", frames + 1, 6, 10, c_in, c_out, frames, edge};
    expect_conv3d(c, DType::kBF16, [&](Conv3dTensors& t) { run_there(t, c); });
  }
}

TEST(GpuConv3d, TheSameBitsBesideOtherWork) {
  VSA_NEEDS_GPU;
  VSA_NEEDS_CUDNN;
  const Conv3dCase c{"Wan", 6, 30, 52, 96, 96, 3, 3};
  std::optional<TestTensor> first;
  BusyStream busy;
  for (int i = 0; i < 5; ++i) {
    expect_conv3d(c, DType::kBF16, [&](Conv3dTensors& t) {
      run_there(t, c);
      if (!first) first = t.out;
      EXPECT_TRUE(same_bits(t.out, *first)) << i;
    });
  }
}

TEST(GpuPixelNorm, EveryDtypeAndWhateverIsLeftOut) {
  VSA_NEEDS_GPU;
  for (const PixelNormCase& c : pixel_norm_cases()) {
    for (const DType dtype : kTokenDtypes) {
      for (const DType out : {dtype, DType::kF32}) {
        SCOPED_TRACE(c.name + " " + std::string(name(dtype)) + " to " + std::string(name(out)));
        expect_pixel_norm(c, pixel_norm_tensors(c, dtype, out),
                          [&](PixelNormTensors& t) { run_there(t, c); });
      }
    }
  }
}

TEST(GpuUpsample, EveryDtype) {
  VSA_NEEDS_GPU;
  for (const UpsampleCase& c : upsample_cases()) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(c.name + " " + std::string(name(dtype)));
      expect_upsample(c, dtype, [&](UpsampleTensors& t) { run_there(t, c); });
    }
  }
}

TEST(GpuSoftmax, EveryDtype) {
  VSA_NEEDS_GPU;
  for (const SoftmaxCase& c : softmax_cases()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(c.name + " " + std::string(name(dtype)));
      expect_softmax(c, dtype, [&](SoftmaxTensors& t) { run_there(t, c); });
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
