#include "bench/gpu/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "src/core/element.h"

namespace vsa::bench {
namespace {

constexpr int kSampledTiles = 12;

using Vector = std::vector<double>;

class Oracle {
 public:
  explicit Oracle(const HostProblem& p) : p_(p) {}

  Vector row(const std::vector<uint16_t>& x, int64_t h, int64_t s) const {
    Vector to(static_cast<size_t>(p_.head_dim));
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      to[static_cast<size_t>(d)] =
          load_element(x.data(), p_.dtype, (s * p_.num_heads + h) * p_.head_dim + d);
    }
    return to;
  }

  Vector mean(const std::vector<uint16_t>& x, int64_t h, int64_t tile) const {
    Vector sum(static_cast<size_t>(p_.head_dim), 0.0);
    const auto tokens = p_.plan->tokens(tile);
    for (const int32_t s : tokens) {
      const Vector r = row(x, h, s);
      for (size_t d = 0; d < sum.size(); ++d) sum[d] += r[d];
    }
    for (double& e : sum) e /= static_cast<double>(tokens.size());
    return sum;
  }

  /// softmax(scale q k) v over rows.
  Vector attend(const Vector& q, const std::vector<Vector>& k, const std::vector<Vector>& v) const {
    const double scale = 1.0 / std::sqrt(static_cast<double>(p_.head_dim));
    Vector scores(k.size());
    double most = -std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < k.size(); ++j) {
      double dot = 0.0;
      for (size_t d = 0; d < q.size(); ++d) dot += q[d] * k[j][d];
      scores[j] = scale * dot;
      most = std::max(most, scores[j]);
    }
    Vector out(q.size(), 0.0);
    double sum = 0.0;
    for (size_t j = 0; j < k.size(); ++j) {
      const double p = std::exp(scores[j] - most);
      sum += p;
      for (size_t d = 0; d < q.size(); ++d) out[d] += p * v[j][d];
    }
    for (double& e : out) e = k.empty() ? 0.0 : e / sum;
    return out;
  }

  std::span<const int32_t> kept(int64_t h, int64_t tile) const {
    const auto row = static_cast<size_t>(h * p_.plan->num_tiles() + tile);
    return {p_.index.data() + row * static_cast<size_t>(p_.pitch),
            static_cast<size_t>(p_.count[row])};
  }

 private:
  const HostProblem& p_;
};

}  // namespace

double sampled_error(const HostProblem& p, const std::vector<uint16_t>& out, bool whole) {
  const Oracle oracle(p);
  double error = 0.0;
  double norm = 0.0;
#pragma omp parallel for reduction(+ : error, norm)
  for (int n = 0; n < kSampledTiles; ++n) {
    // The first and the last tile among them, heads in turn.
    const int64_t tile = (p.plan->num_tiles() - 1) * n / (kSampledTiles - 1);
    const int64_t h = int64_t{n} * 5 % p.num_heads;
    std::vector<Vector> k, v;
    for (const int32_t j : oracle.kept(h, tile)) {
      for (const int32_t s : p.plan->tokens(j)) {
        k.push_back(oracle.row(p.k, h, s));
        v.push_back(oracle.row(p.v, h, s));
      }
    }
    Vector coarse;
    if (whole) {
      std::vector<Vector> k_mean, v_mean;
      for (int64_t j = 0; j < p.plan->num_tiles(); ++j) {
        k_mean.push_back(oracle.mean(p.k, h, j));
        v_mean.push_back(oracle.mean(p.v, h, j));
      }
      coarse = oracle.attend(oracle.mean(p.q, h, tile), k_mean, v_mean);
    }
    const auto tokens = p.plan->tokens(tile);
    for (size_t i = 0; i < tokens.size(); i += 7) {
      const int32_t s = tokens[i];
      Vector want = oracle.attend(oracle.row(p.q, h, s), k, v);
      if (whole) {
        const Vector gate = oracle.row(p.gate, h, s);
        for (size_t d = 0; d < want.size(); ++d) want[d] += gate[d] * coarse[d];
      }
      const Vector got = oracle.row(out, h, s);
      for (size_t d = 0; d < want.size(); ++d) {
        error += (got[d] - want[d]) * (got[d] - want[d]);
        norm += want[d] * want[d];
      }
    }
  }
  return std::sqrt(error / norm);
}

double kept_pairs(const HostProblem& p) {
  const Oracle oracle(p);
  double pairs = 0.0;
  for (int64_t h = 0; h < p.num_heads; ++h) {
    for (int64_t tile = 0; tile < p.plan->num_tiles(); ++tile) {
      double keys = 0.0;
      for (const int32_t j : oracle.kept(h, tile)) keys += p.plan->tile_len(j);
      pairs += keys * p.plan->tile_len(tile);
    }
  }
  return pairs;
}

double shared_share(const HostProblem& p) {
  const Oracle oracle(p);
  double shared = 0.0;
  double all = 0.0;
  for (int64_t h = 0; h < p.num_heads; ++h) {
    for (int64_t tile = 0; tile + 1 < p.plan->num_tiles(); tile += 2) {
      const auto a = oracle.kept(h, tile);
      const auto b = oracle.kept(h, tile + 1);
      std::vector<int32_t> both;
      std::ranges::set_intersection(a, b, std::back_inserter(both));
      shared += static_cast<double>(both.size());
      all += static_cast<double>(a.size());
    }
  }
  return shared / std::max(all, 1.0);
}

}  // namespace vsa::bench
