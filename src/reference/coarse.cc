// coarse: dense attention between pooled tiles. Host-only.
//
//   s_ij = scale * q_i . k_j    p_i = softmax_j(s_ij)    out_i = sum_j p_ij v_j
//
// over the kv tiles j that have a valid token; the others have s_ij = -inf and p_ij = 0. What
// CoarseRounding rounds is rounded here in fp64, once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double rounded(double x, CoarseRounding rounding) {
  if (rounding == CoarseRounding::kNone) return x;
  return static_cast<double>(static_cast<float>(half_from_double<BF16>(x)));
}

Row rounded(Row x, CoarseRounding rounding) {
  for (double& e : x) e = rounded(e, rounding);
  return x;
}

/// Rows [Nk, D] of one head.
std::vector<Row> load_rows(const ConstTensor& t, int64_t b, int64_t h,
                           CoarseRounding rounding = CoarseRounding::kNone) {
  std::vector<Row> rows;
  for (int64_t j = 0; j < t.shape[2]; ++j) rows.push_back(rounded(load_row(t, b, h, j), rounding));
  return rows;
}

/// s_i: the scores of one query tile against all kv tiles.
Row scores_of(const Row& q, const std::vector<Row>& k, const TilePlan& kv_plan, double scale,
              CoarseRounding rounding = CoarseRounding::kNone) {
  Row scores(k.size(), -kInf);
  for (size_t j = 0; j < k.size(); ++j) {
    if (kv_plan.tile_len(static_cast<int64_t>(j)) == 0) continue;
    scores[j] = rounded(scale * rounded(dot(q, k[j]), rounding), rounding);
  }
  return scores;
}

/// p_i: 0 for empty kv tiles, whatever the other scores are.
Row softmax(const Row& scores, const TilePlan& kv_plan) {
  double max = -kInf;
  for (const double s : scores) max = std::max(max, s);
  Row p(scores.size(), 0.0);
  double sum = 0.0;
  for (size_t j = 0; j < p.size(); ++j) {
    if (kv_plan.tile_len(static_cast<int64_t>(j)) == 0) continue;
    p[j] = std::exp(scores[j] - max);
    sum += p[j];
  }
  if (kv_plan.num_valid_tokens() > 0) {
    for (double& x : p) x /= sum;
  }
  return p;
}

}  // namespace

Status coarse(const Context& /*context*/, const CoarseArgs& args) {
  const int64_t group_size = args.q_pooled.shape[1] / args.k_pooled.shape[1];
  for (int64_t b = 0; b < args.q_pooled.shape[0]; ++b) {
    for (int64_t h = 0; h < args.q_pooled.shape[1]; ++h) {
      const std::vector<Row> k = load_rows(args.k_pooled, b, h / group_size, args.rounding);
      const std::vector<Row> v = load_rows(args.v_pooled, b, h / group_size, args.rounding);
      for (int64_t i = 0; i < args.q_pooled.shape[2]; ++i) {
        const Row q = rounded(load_row(args.q_pooled, b, h, i), args.rounding);
        const Row scores = scores_of(q, k, *args.kv_plan, *args.scale, args.rounding);
        if (!args.coarse_scores.empty()) store_row(args.coarse_scores, b, h, i, scores);
        if (args.coarse_out.empty()) continue;

        const Row p = rounded(softmax(scores, *args.kv_plan), args.rounding);
        Row out(static_cast<size_t>(args.v_pooled.shape[3]), 0.0);
        for (size_t j = 0; j < p.size(); ++j) add_scaled(out, p[j], v[j]);
        store_row(args.coarse_out, b, h, i, rounded(out, args.rounding));
      }
    }
  }
  return {};
}

// dv_j = sum_i p_ij dout_i
// ds_ij = p_ij (dout_i . v_j - dout_i . out_i), and dout_i . out_i = sum_j p_ij dout_i . v_j
// dq_i = scale sum_j ds_ij k_j      dk_j = scale sum_i ds_ij q_i
// where the sums over i run over all query heads that share the kv head.
Status coarse_backward(const Context& /*context*/, const CoarseBackwardArgs& args) {
  const int64_t group_size = args.q_pooled.shape[1] / args.k_pooled.shape[1];
  const Row zero(static_cast<size_t>(args.q_pooled.shape[3]), 0.0);
  for (int64_t b = 0; b < args.k_pooled.shape[0]; ++b) {
    for (int64_t h_kv = 0; h_kv < args.k_pooled.shape[1]; ++h_kv) {
      const std::vector<Row> k = load_rows(args.k_pooled, b, h_kv);
      const std::vector<Row> v = load_rows(args.v_pooled, b, h_kv);
      std::vector<Row> dk(k.size(), zero);
      std::vector<Row> dv(v.size(), zero);
      for (int64_t h = h_kv * group_size; h < (h_kv + 1) * group_size; ++h) {
        for (int64_t i = 0; i < args.q_pooled.shape[2]; ++i) {
          const Row q = load_row(args.q_pooled, b, h, i);
          const Row dout = load_row(args.dcoarse_out, b, h, i);
          const Row p = softmax(scores_of(q, k, *args.kv_plan, *args.scale), *args.kv_plan);
          double dout_dot_out = 0.0;
          for (size_t j = 0; j < p.size(); ++j) dout_dot_out += p[j] * dot(dout, v[j]);
          Row dq = zero;
          for (size_t j = 0; j < p.size(); ++j) {
            const double ds = p[j] * (dot(dout, v[j]) - dout_dot_out);
            add_scaled(dv[j], p[j], dout);
            add_scaled(dq, *args.scale * ds, k[j]);
            add_scaled(dk[j], *args.scale * ds, q);
          }
          store_row(args.dq_pooled, b, h, i, dq);
        }
      }
      for (size_t j = 0; j < k.size(); ++j) {
        store_row(args.dk_pooled, b, h_kv, static_cast<int64_t>(j), dk[j]);
        store_row(args.dv_pooled, b, h_kv, static_cast<int64_t>(j), dv[j]);
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
