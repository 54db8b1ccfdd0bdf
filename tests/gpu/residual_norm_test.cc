// Parity of residual_norm of the CUDA backend with the fp64 reference, the same bits in every run,
// and replays of a captured call.
#include "tests/support/residual_norm.h"

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

const ResidualNormExtras kAll{"all", true, true, true, true, true};

/// The tensors of a call in device memory.
struct OnDevice {
  explicit OnDevice(ResidualNormTensors& t)
      : x(ConstTensor(t.x.view())),
        y(ConstTensor(t.y.view())),
        gate(ConstTensor(t.gate.view())),
        scale(ConstTensor(t.scale.view())),
        shift(ConstTensor(t.shift.view())),
        out(ConstTensor(t.out.view())) {}

  ResidualNormArgs args(ResidualNormTensors& t, const ResidualNormExtras& extras) const {
    ResidualNormArgs args = t.args(extras);
    args.x = x.view();
    args.y.data = args.y.empty() ? nullptr : y.view().data;
    args.gate.data = args.gate.empty() ? nullptr : gate.view().data;
    args.scale.data = args.scale.empty() ? nullptr : scale.view().data;
    args.shift.data = args.shift.empty() ? nullptr : shift.view().data;
    args.out.data = args.out.empty() ? nullptr : out.view().data;
    return args;
  }
  void download(ResidualNormTensors& t) const {
    x.download(t.x.view());
    out.download(t.out.view());
  }

  DeviceTensor x, y, gate, scale, shift, out;
};

void run_there(ResidualNormTensors& t, const ResidualNormExtras& extras) {
  const OnDevice there(t);
  run_on_gpu([&](const Context& c) { return residual_norm(c, there.args(t, extras)); });
  there.download(t);
}

class GpuResidualNorm : public testing::TestWithParam<ResidualNormCase> {};
INSTANTIATE_TEST_SUITE_P(Each, GpuResidualNorm, testing::ValuesIn(residual_norm_cases()),
                         [](const auto& of) { return of.param.name; });

TEST_P(GpuResidualNorm, EveryDtypeAndWhateverIsLeftOut) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    for (const DType x_dtype : {DType::kF32, dtype}) {
      SCOPED_TRACE(std::string(name(x_dtype)) + " " + std::string(name(dtype)));
      const ResidualNormTensors in = residual_norm_tensors(GetParam(), x_dtype, dtype);
      for (const ResidualNormExtras& extras : residual_norm_extras()) {
        SCOPED_TRACE(extras.name);
        expect_residual_norm(in, extras, [&](ResidualNormTensors& t) { run_there(t, extras); });
      }
    }
  }
}

TEST_P(GpuResidualNorm, ALargeMeanDoesNotCancel) {
  VSA_NEEDS_GPU;
  const ResidualNormExtras extras{"norm", false, false, true, true, true};
  ResidualNormTensors in = residual_norm_tensors(GetParam(), DType::kF32, DType::kBF16);
  in.x = in.x.map([](double x) { return 4096.0 + x; }).as(DType::kF32);
  expect_residual_norm(in, extras, [&](ResidualNormTensors& t) { run_there(t, extras); });
}

TEST_P(GpuResidualNorm, TheSameBitsBesideOtherWork) {
  VSA_NEEDS_GPU;
  const auto run = [&] {
    ResidualNormTensors t = residual_norm_tensors(GetParam(), DType::kF32, DType::kBF16);
    run_there(t, kAll);
    return t;
  };
  const ResidualNormTensors first = run();
  BusyStream busy;
  for (int i = 0; i < 20; ++i) {
    const ResidualNormTensors again = run();
    ASSERT_TRUE(same_bits(again.x, first.x)) << "repeat " << i;
    ASSERT_TRUE(same_bits(again.out, first.out)) << "repeat " << i;
  }
}

/// Two calls on one x in a graph, replayed three times: x is the sum of six branches.
TEST(GpuResidualNormGraph, T41_ReplaysAreCallsOneAfterTheOther) {
  VSA_NEEDS_GPU;
  const ResidualNormCase shape{"W1536_D128", {2, 12, 37, 128}, Order::kBshd, Order::kFused};
  ResidualNormTensors host = residual_norm_tensors(shape, DType::kF32, DType::kBF16);
  const OnDevice there(host);
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const Context context{.backend = BackendId::kCuda, .stream = stream};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  throw_if_error(residual_norm(context, there.args(host, kAll)));
  // Starts before the first one has ended, and adds to what that one stores.
  throw_if_error(residual_norm(context, there.args(host, kAll)));
  expect_cuda(cudaStreamEndCapture(stream, &graph));
  expect_cuda(cudaGraphInstantiate(&exec, graph, 0));
  for (int replay = 0; replay < 3; ++replay) {
    ResidualNormTensors want = host;
    run_there(want, kAll);
    run_there(want, kAll);
    expect_cuda(cudaGraphLaunch(exec, stream));
    expect_cuda(cudaStreamSynchronize(stream));
    there.download(host);
    EXPECT_TRUE(same_bits(host.x, want.x)) << "replay " << replay;
    EXPECT_TRUE(same_bits(host.out, want.out)) << "replay " << replay;
  }
  expect_cuda(cudaGraphExecDestroy(exec));
  expect_cuda(cudaGraphDestroy(graph));
  expect_cuda(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace vsa::test::gpu
