// The C ABI of relative_attention: every field of its struct reaches the C++ call.
#include <gtest/gtest.h>

#include <vector>

#include "vsa/c_api.h"
#include "vsa/vsa.h"

namespace vsa::test {
namespace {

TEST(CApiRelativeAttention, EveryFieldReachesItsTwin) {
  constexpr Dims q_dims{.batch = 1, .num_heads = 2, .seq_len = 3, .head_dim = 8};
  constexpr Dims kv_dims{.batch = 1, .num_heads = 1, .seq_len = 2, .head_dim = 8};
  constexpr Dims bias_dims{.batch = 1, .num_heads = 2, .seq_len = 1, .head_dim = 4};
  const auto numbers = [](size_t count, int step) {
    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i) {
      x[i] = static_cast<float>(i * 7 % 11) * 0.1F + static_cast<float>(step);
    }
    return x;
  };
  std::vector<float> q = numbers(48, 0), k = numbers(16, 1), v = numbers(16, 2);
  std::vector<float> bias = numbers(8, 3), out(48), cpp_out(48);
  const auto cpp = [](std::vector<float>& data, const Dims& d) {
    return Tensor::bshd(data.data(), DType::kF32, d);
  };
  ASSERT_TRUE(relative_attention({.backend = BackendId::kReference}, {.q = cpp(q, q_dims),
                                                                      .k = cpp(k, kv_dims),
                                                                      .v = cpp(v, kv_dims),
                                                                      .bias = cpp(bias, bias_dims),
                                                                      .scale = 0.75F,
                                                                      .out = cpp(cpp_out, q_dims)})
                  .ok());
  vsa_context context{};  // of the reference backend
  context.struct_size = sizeof context;
  const auto c = [](std::vector<float>& data, const Dims& d) {
    return vsa_bshd(data.data(), VSA_F32, d.batch, d.seq_len, d.num_heads, d.head_dim);
  };
  vsa_relative_attention_args args{};
  args.struct_size = sizeof args;
  args.q = vsa_read(c(q, q_dims));
  args.k = vsa_read(c(k, kv_dims));
  args.v = vsa_read(c(v, kv_dims));
  args.bias = vsa_read(c(bias, bias_dims));
  args.scale = {.is_set = 1, .value = 0.75F};
  args.out = c(out, q_dims);
  ASSERT_EQ(vsa_relative_attention(&context, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(out, cpp_out);
}

}  // namespace
}  // namespace vsa::test
