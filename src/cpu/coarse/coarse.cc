// coarse as a stage of its own: attention over the means of tiles. Host-only.
#include <algorithm>

#include "src/cpu/coarse/coarse_kernel.h"
#include "src/cpu/coarse/round_bf16.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// All rows of head h, batch item b.
Rows head_rows(const ConstTensor& x, int64_t b, int64_t h) {
  return {.data = f32_row(x, b, h, 0),
          .dtype = DType::kF32,
          .stride = x.stride[2],
          .count = x.shape[2]};
}

}  // namespace

Status coarse(const Context& context, const CoarseArgs& args) {
  const auto& [batch, num_heads, num_q_tiles, head_dim] = args.q_pooled.shape;
  const int64_t dim = head_dim;
  const int64_t num_kv_tiles = args.k_pooled.shape[2];
  const int64_t num_kv_heads = args.k_pooled.shape[1];
  const int64_t group_size = num_heads / num_kv_heads;
  const int64_t ld = round_up_lanes(dim);
  const int64_t cols = round_up_lanes(num_kv_tiles);

  const FloatBuffer k_rows(num_kv_tiles * ld);
  const FloatBuffer k_packed(dim * cols);
  const FloatBuffer v_rows(num_kv_tiles * ld);
  const int64_t scratch_floats = ld + 2 * cols + ld;
  const FloatBuffer scratch(num_threads(context) * scratch_floats);
  const PooledKv kv{.k_packed = k_packed.data(),
                    .v = v_rows.data(),
                    .head_dim = dim,
                    .plan = args.kv_plan,
                    .rounding = args.rounding};

  for (int64_t head = 0; head < batch * num_kv_heads; ++head) {
    const int64_t b = head / num_kv_heads;
    const int64_t h_kv = head % num_kv_heads;
    load_rows(head_rows(args.k_pooled, b, h_kv), dim, k_rows.data(), ld);
    load_rows(head_rows(args.v_pooled, b, h_kv), dim, v_rows.data(), ld);
    round_row(args.rounding, k_rows.data(), num_kv_tiles * ld);
    round_row(args.rounding, v_rows.data(), num_kv_tiles * ld);
    pack_transposed(k_rows.data(), ld, num_kv_tiles, dim, k_packed.data());
    const int64_t num_rows = args.q_pooled.shape[2];
    parallel_for(context, group_size * num_rows, [&](int64_t item, int thread) {
      const int64_t h = h_kv * group_size + item / num_rows;
      const int64_t i = item % num_rows;
      float* scores = scratch.data() + thread * scratch_floats;
      float* weights = scores + cols;
      float* out = weights + cols;
      float* q = out + ld;
      std::copy_n(f32_row(args.q_pooled, b, h, i), dim, q);
      round_row(args.rounding, q, dim);
      coarse_scores_row(kv, q, *args.scale, scores);
      if (!args.coarse_scores.empty()) {
        std::copy_n(scores, num_kv_tiles, f32_row(args.coarse_scores, b, h, i));
      }
      if (args.coarse_out.empty()) return;
      coarse_out_row(kv, scores, weights, out);
      std::copy_n(out, dim, f32_row(args.coarse_out, b, h, i));
    });
  }
  return {};
}

}  // namespace vsa::cpu
