// What relative_attention must give, for any backend.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/run.h"
#include "vsa/relative_attention.h"

namespace vsa::test {

struct RelativeAttentionCase {
  std::string name;
  int64_t batch, num_heads, num_kv_heads, num_queries, num_keys, head_dim;
  std::optional<float> scale;
  Order order;
};
/// One pair, fewer queries than keys and more, heads that share keys, numbers of tokens that no
/// block divides, and the longest prompt of umT5.
std::vector<RelativeAttentionCase> relative_attention_cases();

struct RelativeAttentionTensors {
  TestTensor q, k, v, bias, out;
  RelativeAttentionArgs args(const RelativeAttentionCase& c);
};
RelativeAttentionTensors relative_attention_tensors(const RelativeAttentionCase& c, DType dtype);

/// Compares what `run` leaves in `out` with the reference in fp64, within a derived bound.
void expect_relative_attention(const RelativeAttentionCase& c, const RelativeAttentionTensors& in,
                               const std::function<void(RelativeAttentionTensors&)>& run);

}  // namespace vsa::test
