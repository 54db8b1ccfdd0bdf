// upsample: each pixel four times, each part of its channels a frame. Host-only.
#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {

Status upsample(const Context& /*context*/, const UpsampleArgs& args) {
  const int64_t width = args.x.shape[2] / args.height;
  const auto channels = static_cast<std::ptrdiff_t>(args.out.shape[3]);
  for (int64_t f = 0; f < args.out.shape[1]; ++f) {
    for (int64_t s = 0; s < args.out.shape[2]; ++s) {
      const int64_t row = s / (2 * width) / 2;
      const int64_t column = s % (2 * width) / 2;
      Row x = load_row(args.x, 0, f / args.frames_each, row * width + column);
      if (!args.bias.empty()) add_scaled(x, 1.0, load_row(args.bias, 0, 0, 0));
      const auto first = x.begin() + f % args.frames_each * channels;
      store_row(args.out, 0, f, s, Row(first, first + channels));
    }
  }
  return {};
}

}  // namespace vsa::reference
