// relative_attention: softmax attention with a bias for each distance. Host-only.
//
//   s_ij = scale * q_i . k_j + bias_(j - i + Sq - 1)    p_i = softmax_j(s_ij)
//   out_i = sum_j p_ij v_j
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

/// 0 everywhere if all scores are -inf.
Row softmax(Row scores) {
  double max = -std::numeric_limits<double>::infinity();
  for (const double s : scores) max = std::max(max, s);
  double sum = 0.0;
  for (double& s : scores) {
    s = std::isinf(max) && max < 0.0 && !std::isnan(s) ? 0.0 : std::exp(s - max);
    sum += s;
  }
  if (sum == 0.0) return scores;
  for (double& s : scores) s /= sum;
  return scores;
}

}  // namespace

Status relative_attention(const Context& /*context*/, const RelativeAttentionArgs& args) {
  const auto& [batch, num_heads, num_queries, head_dim] = args.q.shape;
  const int64_t num_keys = args.k.shape[2];
  const int64_t group_size = num_heads / args.k.shape[1];
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < num_heads; ++h) {
      std::vector<Row> k, v;
      for (int64_t j = 0; j < num_keys; ++j) {
        k.push_back(load_row(args.k, b, h / group_size, j));
        v.push_back(load_row(args.v, b, h / group_size, j));
      }
      const Row bias = load_row(args.bias, b, h, 0);
      for (int64_t i = 0; i < num_queries; ++i) {
        const Row q = load_row(args.q, b, h, i);
        Row scores;
        for (int64_t j = 0; j < num_keys; ++j) {
          const auto distance = static_cast<size_t>(j - i + num_queries - 1);
          scores.push_back(*args.scale * dot(q, k[static_cast<size_t>(j)]) + bias[distance]);
        }
        const Row p = softmax(std::move(scores));
        Row out(static_cast<size_t>(head_dim), 0.0);
        for (size_t j = 0; j < p.size(); ++j) add_scaled(out, p[j], v[j]);
        store_row(args.out, b, h, i, out);
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
