// softmax: a row is a thread's work at a time. Host-only.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// @param e  [N], zeros behind `columns`
void softmax_row(const float* x, float scale, int64_t columns, float* e) {
  float most = scale * x[0];
  for (int64_t n = 1; n < columns; ++n) most = std::max(most, scale * x[n]);
  float sum = 0.0F;
  for (int64_t n = 0; n < columns; ++n) {
    e[n] = std::exp(scale * x[n] - most);  // a NaN makes the sum one
    sum += e[n];
  }
  for (int64_t n = 0; n < columns; ++n) e[n] /= sum;
}

}  // namespace

Status softmax(const Context& context, const SoftmaxArgs& args) {
  const int64_t n = args.x.shape[3];
  std::vector<FloatBuffer> scratch;
  for (int i = 0; i < num_threads(context); ++i) {
    scratch.emplace_back(n);
    std::fill_n(scratch.back().data(), n, 0.0F);
  }
  parallel_for_heads(
      context, args.x, args.x.shape[2], [&](int64_t b, int64_t h, int64_t s, int thread) {
        float* const e = scratch[static_cast<size_t>(thread)].data();
        softmax_row(f32_row(args.x, b, h, s), args.scale, args.columns, e);
        store_rows(e, n, n,
                   {.data = static_cast<std::byte*>(args.out.data) +
                            row_offset(args.out, b, h, s) * size_bytes(args.out.dtype),
                    .dtype = args.out.dtype,
                    .stride = n,
                    .count = 1});
      });
  return {};
}

}  // namespace vsa::cpu
