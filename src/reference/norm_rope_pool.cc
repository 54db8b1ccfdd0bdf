// norm_rope_pool: RMSNorm and rotary embedding of every token, in place, then the means of tiles.
// Host-only.
#include <cmath>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

double mean_square(const Row& x) { return dot(x, x) / static_cast<double>(x.size()); }

/// What head h of a token is multiplied by, the weight aside.
double rstd_of(const NormRopePoolArgs& args, const std::vector<Row>& heads, int64_t b, int64_t h,
               int64_t s) {
  const bool per_head = args.norm == NormOver::kHead;
  if (args.norm == NormOver::kNothing) return 1.0;
  if (!args.rstd.empty()) return load_row(args.rstd, b, per_head ? h : 0, s)[0];
  if (per_head) {
    return 1.0 /
           std::sqrt(mean_square(heads[static_cast<size_t>(h)]) + static_cast<double>(args.eps));
  }
  double mean = 0.0;
  for (const Row& head : heads) mean += mean_square(head) / static_cast<double>(heads.size());
  return 1.0 / std::sqrt(mean + static_cast<double>(args.eps));
}

/// Turns each pair (x_2j, x_2j+1).
void turn(Row& x, const Row& cos, const Row& sin) {
  for (size_t j = 0; j < cos.size(); ++j) {
    const double a = x[2 * j];
    const double b = x[2 * j + 1];
    x[2 * j] = a * cos[j] - b * sin[j];
    x[2 * j + 1] = a * sin[j] + b * cos[j];
  }
}

void norm_rope_token(const NormRopePoolArgs& args, int64_t b, int64_t s) {
  const int64_t num_heads = args.x.shape[1];
  std::vector<Row> heads;
  for (int64_t h = 0; h < num_heads; ++h) heads.push_back(load_row(args.x, b, h, s));
  for (int64_t h = 0; h < num_heads; ++h) {
    Row x = heads[static_cast<size_t>(h)];
    const double rstd = rstd_of(args, heads, b, h, s);
    for (double& e : x) e *= rstd;
    if (!args.weight.empty()) {
      const Row weight = load_row(args.weight, 0, h, 0);
      for (size_t d = 0; d < x.size(); ++d) x[d] *= weight[d];
    }
    if (!args.cos.empty()) turn(x, load_row(args.cos, 0, 0, s), load_row(args.sin, 0, 0, s));
    store_row(args.x, b, h, s, x);
  }
}

}  // namespace

Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args) {
  for (int64_t b = 0; b < args.x.shape[0]; ++b) {
    for (int64_t t = 0; t < args.plan->num_tiles(); ++t) {
      for (const int32_t s : args.plan->tokens(t)) norm_rope_token(args, b, s);
    }
  }
  if (args.pooled.empty()) return {};
  return reference::pool(context, {.x = args.x, .plan = args.plan, .pooled = args.pooled});
}

}  // namespace vsa::reference
