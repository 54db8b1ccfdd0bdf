// upsample: a row of x, which becomes two rows of each of its frames, is a thread's work at a time.
// Host-only.
#include <algorithm>
#include <vector>

#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// @param row  of all frames of x
/// @param v    scratch for a row
void upsample_row(const UpsampleArgs& args, int64_t row, float* v) {
  const int64_t wide = args.x.shape[3];
  const int64_t channels = args.out.shape[3];
  const int64_t width = args.x.shape[2] / args.height;
  load_rows({.data = static_cast<const std::byte*>(args.x.data) +
                     row * width * wide * size_bytes(args.x.dtype),
             .dtype = args.x.dtype,
             .stride = wide,
             .count = width},
            wide, v, wide);
  const auto* bias = static_cast<const float*>(args.bias.data);
  for (int64_t i = 0; bias != nullptr && i < width * wide; ++i) v[i] += bias[i % wide];
  const int64_t frame = row / args.height;
  for (int64_t part = 0; part < args.frames_each; ++part) {
    for (int64_t copy = 0; copy < 4; ++copy) {  // rows 2r and 2r + 1, columns 2c and 2c + 1
      const int64_t to_row =
          ((frame * args.frames_each + part) * args.height + row % args.height) * 2 + copy / 2;
      const int64_t first = (to_row * 2 * width + copy % 2) * channels;
      store_rows(
          v + part * channels, wide, channels,
          {.data = static_cast<std::byte*>(args.out.data) + first * size_bytes(args.out.dtype),
           .dtype = args.out.dtype,
           .stride = 2 * channels,
           .count = width});
    }
  }
}

}  // namespace

Status upsample(const Context& context, const UpsampleArgs& args) {
  std::vector<FloatBuffer> scratch;
  const int64_t width = args.x.shape[2] / args.height;
  for (int i = 0; i < num_threads(context); ++i) scratch.emplace_back(width * args.x.shape[3]);
  parallel_for(context, args.x.shape[1] * args.height, [&](int64_t row, int thread) {
    upsample_row(args, row, scratch[static_cast<size_t>(thread)].data());
  });
  return {};
}

}  // namespace vsa::cpu
