// Parity of linear of the CUDA backend, which is cuBLAS, with the fp64 reference.
#include "tests/support/linear.h"

#include "tests/gpu/cases.h"
#include "vsa/vendor_library.h"

namespace vsa::test::gpu {
namespace {

void run_there(LinearTensors& t, const LinearCase& c) {
  const DeviceTensor x(ConstTensor(t.x.view()));
  const DeviceTensor weight(ConstTensor(t.weight.view()));
  const DeviceTensor bias(ConstTensor(t.bias.view()));
  const DeviceTensor out(ConstTensor(t.out.view()));
  LinearArgs args = t.args(c);
  args.x = x.view();
  args.weight = weight.view();
  if (c.bias) args.bias = bias.view();
  args.out = out.view();
  run_on_gpu([&](const Context& context) { return linear(context, args); });
  out.download(t.out.view());
}

TEST(GpuLinear, EveryDtypeAndEpilogue) {
  VSA_NEEDS_GPU;
  const auto libraries = vendor_libraries(BackendId::kCuda);
  if (!libraries.front().available) GTEST_SKIP() << libraries.front().detail;
  for (const LinearCase& c : linear_cases(kTokenDtypes)) {
    SCOPED_TRACE(testing::Message() << name(c.dtype) << " to " << name(c.out_dtype) << " bias "
                                    << c.bias << " " << c.m << "x" << c.n << "x" << c.k);
    expect_linear(c, [&](LinearTensors& t) { run_there(t, c); });
  }
}

/// The shapes of Wan2.1-T2V-1.3B, on a short sequence.
TEST(GpuLinear, TheWidthsOfWan) {
  VSA_NEEDS_GPU;
  const auto libraries = vendor_libraries(BackendId::kCuda);
  if (!libraries.front().available) GTEST_SKIP() << libraries.front().detail;
  for (const auto& [n, k] :
       {std::array<int64_t, 2>{6144, 1536}, {8960, 1536}, {1536, 8960}, {64, 1536}}) {
    SCOPED_TRACE(testing::Message() << n << "x" << k);
    const LinearCase c{.m = 100,
                       .n = n,
                       .k = k,
                       .dtype = DType::kBF16,
                       .out_dtype = n == 64 ? DType::kF32 : DType::kBF16,
                       .bias = true,
                       .activation = n == 8960 ? Activation::kGeluTanh : Activation::kNone,
                       .order = Order::kBshd};
    expect_linear(c, [&](LinearTensors& t) { run_there(t, c); });
  }
}

}  // namespace
}  // namespace vsa::test::gpu
