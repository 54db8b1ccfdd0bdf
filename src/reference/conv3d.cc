// conv3d: every output pixel, sum by sum. Host-only.
#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

class Convolution {
 public:
  explicit Convolution(const Conv3dArgs& args)
      : args_(args), width_(args.x.shape[2] / args.height) {}

  Row pixel(int64_t frame, int64_t row, int64_t column) const {
    Row out(static_cast<size_t>(args_.weight.shape[1]), 0.0);
    const int64_t edge = args_.kernel_edge;
    for (int64_t t = 0; t < args_.kernel_frames; ++t) {
      for (int64_t i = 0; i < edge; ++i) {
        for (int64_t j = 0; j < edge; ++j) {
          const int64_t r = row + i - edge / 2;
          const int64_t c = column + j - edge / 2;
          if (r < 0 || r >= args_.height || c < 0 || c >= width_) continue;  // zeros
          add(load_row(args_.x, 0, frame + t, r * width_ + c), (t * edge + i) * edge + j, out);
        }
      }
    }
    return out;
  }

  int64_t width() const { return width_; }

 private:
  void add(const Row& x, int64_t tap, Row& out) const {
    for (size_t n = 0; n < out.size(); ++n) {
      out[n] += dot(x, load_row(args_.weight, 0, static_cast<int64_t>(n), tap));
    }
  }

  const Conv3dArgs& args_;
  int64_t width_;
};

}  // namespace

Status conv3d(const Context& /*context*/, const Conv3dArgs& args) {
  const Convolution convolution(args);
  for (int64_t f = 0; f < args.out.shape[1]; ++f) {
    for (int64_t s = 0; s < args.out.shape[2]; ++s) {
      const int64_t width = convolution.width();
      store_row(args.out, 0, f, s, convolution.pixel(f, s / width, s % width));
    }
  }
  return {};
}

}  // namespace vsa::reference
