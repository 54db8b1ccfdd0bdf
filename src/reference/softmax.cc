// softmax: the maximum, the sum, the quotients. Host-only.
#include <algorithm>
#include <cmath>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

Row softmax_of(const Row& x, double scale, size_t columns) {
  Row out(x.size(), 0.0);
  double most = scale * x[0];
  for (size_t n = 1; n < columns; ++n) most = std::max(most, scale * x[n]);
  double sum = 0.0;
  for (size_t n = 0; n < columns; ++n) {
    out[n] = std::exp(scale * x[n] - most);
    sum += out[n];
  }
  for (size_t n = 0; n < columns; ++n) out[n] /= sum;
  return out;
}

}  // namespace

Status softmax(const Context& /*context*/, const SoftmaxArgs& args) {
  for (int64_t b = 0; b < args.x.shape[0]; ++b) {
    for (int64_t h = 0; h < args.x.shape[1]; ++h) {
      for (int64_t s = 0; s < args.x.shape[2]; ++s) {
        store_row(
            args.out, b, h, s,
            softmax_of(load_row(args.x, b, h, s), args.scale, static_cast<size_t>(args.columns)));
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
