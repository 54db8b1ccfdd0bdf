// The C ABI of residual_norm: every field of its struct reaches the C++ call.
#include <gtest/gtest.h>

#include <vector>

#include "vsa/c_api.h"
#include "vsa/vsa.h"

namespace vsa::test {
namespace {

TEST(CApiResidualNorm, EveryFieldReachesItsTwin) {
  constexpr Dims dims{.batch = 1, .num_heads = 2, .seq_len = 3, .head_dim = 8};
  constexpr Dims shared{.batch = 1, .num_heads = 2, .seq_len = 1, .head_dim = 8};
  const auto numbers = [](size_t count, int step) {
    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i)
      x[i] = static_cast<float>(i * 7 % 11) + static_cast<float>(step);
    return x;
  };
  std::vector<float> x = numbers(48, 1), y = numbers(48, 2), out(48);
  std::vector<float> gate = numbers(16, 3), scale = numbers(16, 4), shift = numbers(16, 5);
  std::vector<float> cpp_x = x, cpp_out(48);
  const auto cpp = [](std::vector<float>& data, const Dims& d) {
    return Tensor::bshd(data.data(), DType::kF32, d);
  };
  ASSERT_TRUE(residual_norm({.backend = BackendId::kReference}, {.x = cpp(cpp_x, dims),
                                                                 .y = cpp(y, dims),
                                                                 .gate = cpp(gate, shared),
                                                                 .scale = cpp(scale, shared),
                                                                 .shift = cpp(shift, shared),
                                                                 .eps = 0.5F,
                                                                 .norm = NormKind::kRms,
                                                                 .out = cpp(cpp_out, dims)})
                  .ok());
  vsa_context context{};  // of the reference backend
  context.struct_size = sizeof context;
  const auto c = [](std::vector<float>& data, const Dims& d) {
    return vsa_bshd(data.data(), VSA_F32, d.batch, d.seq_len, d.num_heads, d.head_dim);
  };
  vsa_residual_norm_args args{};
  args.struct_size = sizeof args;
  args.x = c(x, dims);
  args.y = vsa_read(c(y, dims));
  args.gate = vsa_read(c(gate, shared));
  args.scale = vsa_read(c(scale, shared));
  args.shift = vsa_read(c(shift, shared));
  args.eps = 0.5F;
  args.norm = VSA_NORM_KIND_RMS;
  args.out = c(out, dims);
  ASSERT_EQ(vsa_residual_norm(&context, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(x, cpp_x);
  EXPECT_EQ(out, cpp_out);
}

}  // namespace
}  // namespace vsa::test
