// pixel_norm: bias, residual, norm over the channels of a pixel, activation. Host-only.
#include <cmath>

#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

constexpr double kLeastNorm = 1e-12;

void norm(Row& v, const Row& gamma) {
  const double length = std::sqrt(dot(v, v));
  const double by = std::sqrt(static_cast<double>(v.size())) /
                    (length < kLeastNorm ? kLeastNorm : length);  // a NaN stays one
  for (size_t d = 0; d < v.size(); ++d) v[d] *= by * gamma[d];
}

void pixel(const PixelNormArgs& args, int64_t b, int64_t h, int64_t s) {
  Row v = load_row(args.y, b, h, s);
  if (!args.bias.empty()) add_scaled(v, 1.0, load_row(args.bias, 0, 0, 0));
  if (!args.x.empty()) {
    if (args.residual == Residual::kAdd) add_scaled(v, 1.0, load_row(args.x, b, h, s));
    store_row(args.x, b, h, s, v);
    v = load_row(args.x, b, h, s);  // as it is stored
  }
  if (args.out.empty()) return;
  if (!args.gamma.empty()) norm(v, load_row(args.gamma, 0, 0, 0));
  if (args.activation == Activation::kSilu) {
    for (double& e : v) e = e / (1.0 + std::exp(-e));
  }
  v.resize(static_cast<size_t>(args.out.shape[3]));
  store_row(args.out, b, h, s, v);
}

}  // namespace

Status pixel_norm(const Context& /*context*/, const PixelNormArgs& args) {
  for (int64_t b = 0; b < args.y.shape[0]; ++b) {
    for (int64_t h = 0; h < args.y.shape[1]; ++h) {
      for (int64_t s = 0; s < args.y.shape[2]; ++s) pixel(args, b, h, s);
    }
  }
  return {};
}

}  // namespace vsa::reference
