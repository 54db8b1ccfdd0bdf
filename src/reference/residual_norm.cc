// residual_norm: x + gate * y, then layer or RMS norm over all heads of a token, scale and shift.
// Host-only.
#include <cmath>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

/// Row (b, h, s) of the tensor; `otherwise` in every element if it is empty.
Row row_or(const ConstTensor& t, int64_t b, int64_t h, int64_t s, size_t head_dim,
           double otherwise) {
  return t.empty() ? Row(head_dim, otherwise) : load_row(t, b, h, s);
}

void add(const ResidualNormArgs& args, int64_t b, int64_t h, int64_t s) {
  Row x = load_row(args.x, b, h, s);
  const Row y = load_row(args.y, b, h, s);
  const Row gate = row_or(args.gate, b, h, 0, x.size(), 1.0);
  for (size_t d = 0; d < x.size(); ++d) x[d] += gate[d] * y[d];
  store_row(args.x, b, h, s, x);
}

void norm(const ResidualNormArgs& args, int64_t b, int64_t s) {
  const int64_t num_heads = args.x.shape[1];
  const double width = static_cast<double>(num_heads * args.x.shape[3]);
  std::vector<Row> heads;  // of x as it is stored
  double mean = 0.0;
  for (int64_t h = 0; h < num_heads; ++h) {
    heads.push_back(load_row(args.x, b, h, s));
    for (const double e : heads.back()) mean += e / width;
  }
  if (args.norm == NormKind::kRms) mean = 0.0;
  double var = 0.0;
  for (Row& head : heads) {
    for (double& e : head) e -= mean;
    var += dot(head, head) / width;
  }
  const double rstd = 1.0 / std::sqrt(var + static_cast<double>(args.eps));
  for (int64_t h = 0; h < num_heads; ++h) {
    Row& out = heads[static_cast<size_t>(h)];
    const Row scale = row_or(args.scale, b, h, 0, out.size(), 1.0);
    const Row shift = row_or(args.shift, b, h, 0, out.size(), 0.0);
    for (size_t d = 0; d < out.size(); ++d) out[d] = out[d] * rstd * scale[d] + shift[d];
    store_row(args.out, b, h, s, out);
  }
}

}  // namespace

Status residual_norm(const Context& /*context*/, const ResidualNormArgs& args) {
  const auto& [batch, num_heads, seq_len, head_dim] = args.x.shape;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < seq_len; ++s) {
      for (int64_t h = 0; h < num_heads && !args.y.empty(); ++h) add(args, b, h, s);
      if (!args.out.empty()) norm(args, b, s);
    }
  }
  return {};
}

}  // namespace vsa::reference
