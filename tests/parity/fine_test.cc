// Parity of token-level attention. Both sides are fed the same table, so only arithmetic differs.
#include <fmt/format.h>

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class FineParity : public ParityTest {};
VSA_PARITY(FineParity);

TEST_P(FineParity, Forward) {
  VSA_NEEDS(fine);
  const LutBuffer table = lut();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    Qkv in = qkv(dtype);
    for (const std::optional<float> scale : {std::optional<float>{}, std::optional<float>{0.3F}}) {
      in.scale = scale;
      const FineResult got = run_fine(context(), in, table.view());
      const FineResult want = run_fine(kReference, as_f64(in), table.view());
      const FineTolerance tolerance = fine_tolerance(in, table.view());
      expect_close(got.out, want.out, tolerance.out);
      expect_close(got.lse, want.lse, tolerance.lse);
    }
  }
}

TEST_P(FineParity, RepeatsOfTheLastKey) {
  VSA_NEEDS(fine);
  const LutBuffer table = lut();
  for (const DType dtype : kTokenDtypes) {
    for (const int64_t repeats : {1, 400}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), repeats));
      Qkv in = qkv(dtype);
      in.last_key_repeats = repeats;
      const FineResult got = run_fine(context(), in, table.view());
      const FineResult want = run_fine(kReference, as_f64(in), table.view());
      const FineTolerance tolerance = fine_tolerance(in, table.view());
      expect_close(got.out, want.out, tolerance.out);
      expect_close(got.lse, want.lse, tolerance.lse);
    }
  }
}

TEST_P(FineParity, Backward) {
  VSA_NEEDS(fine_backward);
  const LutBuffer table = lut();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = qkv(dtype);
    const FineResult forward = run_fine(kReference, in, table.view());
    const FineResult wide{.out = forward.out.as(DType::kF64), .lse = forward.lse.as(DType::kF64)};
    const TestTensor dout = like_q(dtype, 5);
    expect_gradients_close(
        run_fine_backward(context(), in, table.view(), forward, dout),
        run_fine_backward(kReference, as_f64(in), table.view(), wide, dout.as(DType::kF64)),
        fine_backward_tolerance(in, table.view(), forward, dout));
  }
}

}  // namespace
}  // namespace vsa::test
