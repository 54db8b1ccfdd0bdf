// fine: token-level attention of each query tile to the kv tiles in its LUT row. Host-only.
//
//   s_ij = scale * q_i . k_j    lse_i = log sum_j exp(s_ij)
//   p_ij = exp(s_ij - lse_i)    out_i = sum_j p_ij v_j
//
// In forward, the last token of the kv sequence stands for 1 + last_key_repeats equal ones.
//
// i runs over the valid tokens of the query tile, j over those of the kept kv tiles. Without any
// key, out_i = 0 and lse_i = -inf.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/element.h"
#include "src/core/lut_row.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The positions of the keys that query tile i of head (b, h) attends to.
std::vector<int64_t> key_positions(const TilePlan& kv_plan, const ConstLut& lut, int64_t b,
                                   int64_t h, int64_t i) {
  std::vector<int64_t> positions;
  for (const int32_t j : lut_row(lut, b, h, i)) {
    const auto tokens = kv_plan.tokens(j);
    positions.insert(positions.end(), tokens.begin(), tokens.end());
  }
  return positions;
}

std::vector<Row> load_rows(const ConstTensor& t, int64_t b, int64_t h,
                           const std::vector<int64_t>& positions) {
  std::vector<Row> rows;
  rows.reserve(positions.size());
  for (const int64_t s : positions) rows.push_back(load_row(t, b, h, s));
  return rows;
}

/// What one query token sees: its output and its log of the sum of exponentials.
struct Attended {
  Row out;
  double lse = -kInf;
};

/// @param counts  how many equal keys each one stands for
Attended attend(const Row& q, const std::vector<Row>& k, const std::vector<Row>& v,
                const std::vector<double>& counts, double scale) {
  Attended result{.out = Row(q.size(), 0.0)};
  if (k.empty()) return result;

  Row scores;
  for (const Row& key : k) scores.push_back(scale * dot(q, key));
  const double max = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (size_t j = 0; j < k.size(); ++j) {
    const double weight = counts[j] * std::exp(scores[j] - max);
    sum += weight;
    add_scaled(result.out, weight, v[j]);
  }
  for (double& x : result.out) x /= sum;
  result.lse = max + std::log(sum);
  return result;
}

}  // namespace

Status fine(const Context& /*context*/, const FineArgs& args) {
  const int64_t group_size = args.q.shape[1] / args.k.shape[1];
  fill(args.out, 0.0);
  if (!args.lse.empty()) fill(args.lse, 0.0);
  for (int64_t b = 0; b < args.q.shape[0]; ++b) {
    for (int64_t h = 0; h < args.q.shape[1]; ++h) {
      for (int64_t i = 0; i < args.q_plan->num_tiles(); ++i) {
        const auto keys = key_positions(*args.kv_plan, args.lut, b, h, i);
        const std::vector<Row> k = load_rows(args.k, b, h / group_size, keys);
        const std::vector<Row> v = load_rows(args.v, b, h / group_size, keys);
        std::vector<double> counts(keys.size(), 1.0);
        for (size_t j = 0; j < keys.size(); ++j) {
          if (keys[j] == args.kv_plan->seq_len() - 1) {
            counts[j] += static_cast<double>(args.last_key_repeats);
          }
        }
        for (const int32_t token : args.q_plan->tokens(i)) {
          const Attended result = attend(load_row(args.q, b, h, token), k, v, counts, *args.scale);
          store_row(args.out, b, h, token, result.out);
          if (!args.lse.empty()) store_row(args.lse, b, h, token, {result.lse});
        }
      }
    }
  }
  return {};
}

// dv_j = sum_i p_ij dout_i
// ds_ij = p_ij (dout_i . v_j - dout_i . out_i)
// dq_i = scale sum_j ds_ij k_j      dk_j = scale sum_i ds_ij q_i
// where the sums over i run over all query heads that share the kv head. lse and out are taken as
// forward gave them.
Status fine_backward(const Context& /*context*/, const FineBackwardArgs& args) {
  const int64_t group_size = args.q.shape[1] / args.k.shape[1];
  const Row zero(static_cast<size_t>(args.q.shape[3]), 0.0);
  fill(args.dq, 0.0);
  for (int64_t b = 0; b < args.k.shape[0]; ++b) {
    for (int64_t h_kv = 0; h_kv < args.k.shape[1]; ++h_kv) {
      std::vector<Row> dk(static_cast<size_t>(args.k.shape[2]), zero);
      std::vector<Row> dv(static_cast<size_t>(args.k.shape[2]), zero);
      for (int64_t h = h_kv * group_size; h < (h_kv + 1) * group_size; ++h) {
        for (int64_t i = 0; i < args.q_plan->num_tiles(); ++i) {
          const auto keys = key_positions(*args.kv_plan, args.lut, b, h, i);
          if (keys.empty()) continue;
          const std::vector<Row> k = load_rows(args.k, b, h_kv, keys);
          const std::vector<Row> v = load_rows(args.v, b, h_kv, keys);
          for (const int32_t token : args.q_plan->tokens(i)) {
            const Row q = load_row(args.q, b, h, token);
            const Row dout = load_row(args.dout, b, h, token);
            const double lse = load_row(args.lse, b, h, token)[0];
            const double dout_dot_out = dot(dout, load_row(args.out, b, h, token));
            Row dq = zero;
            for (size_t j = 0; j < keys.size(); ++j) {
              const double p = std::exp(*args.scale * dot(q, k[j]) - lse);
              const double ds = p * (dot(dout, v[j]) - dout_dot_out);
              const auto key = static_cast<size_t>(keys[j]);
              add_scaled(dv[key], p, dout);
              add_scaled(dq, *args.scale * ds, k[j]);
              add_scaled(dk[key], *args.scale * ds, q);
            }
            store_row(args.dq, b, h, token, dq);
          }
        }
      }
      for (size_t s = 0; s < dk.size(); ++s) {
        store_row(args.dk, b, h_kv, static_cast<int64_t>(s), dk[s]);
        store_row(args.dv, b, h_kv, static_cast<int64_t>(s), dv[s]);
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
