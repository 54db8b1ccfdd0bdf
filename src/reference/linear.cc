// linear: a row of sums, bias and activation. Host-only.
#include <cmath>
#include <numbers>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

}  // namespace

Status linear(const Context& /*context*/, const LinearArgs& args) {
  const int64_t num_columns = args.weight.shape[2];
  std::vector<Row> weight;
  for (int64_t n = 0; n < num_columns; ++n) weight.push_back(load_row(args.weight, 0, 0, n));
  const Row bias =
      args.bias.empty() ? Row(static_cast<size_t>(num_columns), 0.0) : load_row(args.bias, 0, 0, 0);
  for (int64_t m = 0; m < args.x.shape[2]; ++m) {
    const Row x = load_row(args.x, 0, 0, m);
    Row out = bias;
    for (size_t n = 0; n < out.size(); ++n) {
      out[n] += dot(x, weight[n]);
      if (args.activation == Activation::kGeluTanh) out[n] = gelu_tanh(out[n]);
    }
    store_row(args.out, 0, 0, m, out);
  }
  return {};
}

}  // namespace vsa::reference
