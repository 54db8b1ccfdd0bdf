// relative_attention: the queries of one head are shared out among the threads, so that its keys
// are packed once. Host-only.
#include <algorithm>
#include <limits>

#include "src/cpu/relative_attention/relative_attention_kernel.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// Rows first to first + count - 1 of head h, batch item b.
Rows rows_of(const ConstTensor& t, int64_t b, int64_t h, int64_t first, int64_t count) {
  return {.data = static_cast<const std::byte*>(t.data) +
                  row_offset(t, b, h, first) * size_bytes(t.dtype),
          .dtype = t.dtype,
          .stride = t.stride[2],
          .count = count};
}
MutableRows row_of(const Tensor& t, int64_t b, int64_t h, int64_t i) {
  return {.data = static_cast<std::byte*>(t.data) + row_offset(t, b, h, i) * size_bytes(t.dtype),
          .dtype = t.dtype,
          .stride = t.stride[2],
          .count = 1};
}

}  // namespace

Status relative_attention(const Context& context, const RelativeAttentionArgs& args) {
  const auto& [batch, num_heads, num_queries, head_dim] = args.q.shape;
  const int64_t dim = head_dim;
  const int64_t queries = num_queries;
  const int64_t num_keys = args.k.shape[2];
  const int64_t num_kv_heads = args.k.shape[1];
  const int64_t group_size = num_heads / num_kv_heads;
  const int64_t ld = round_up_lanes(dim);
  const int64_t cols = round_up_lanes(num_keys);

  const FloatBuffer k_rows(num_keys * ld);
  const FloatBuffer k_packed(dim * cols);
  const FloatBuffer v_rows(num_keys * ld);
  const int64_t scratch_floats = 2 * ld + 2 * cols;
  const FloatBuffer scratch(num_threads(context) * scratch_floats);
  const RelativeKv kv{
      .k_packed = k_packed.data(), .v = v_rows.data(), .num_keys = num_keys, .head_dim = dim};
  for (int64_t head = 0; head < batch * num_kv_heads; ++head) {
    const int64_t b = head / num_kv_heads;
    const int64_t h_kv = head % num_kv_heads;
    load_rows(rows_of(args.k, b, h_kv, 0, num_keys), dim, k_rows.data(), ld);
    load_rows(rows_of(args.v, b, h_kv, 0, num_keys), dim, v_rows.data(), ld);
    pack_transposed(k_rows.data(), ld, num_keys, dim, k_packed.data());
    parallel_for(context, group_size * queries, [&](int64_t item, int thread) {
      const int64_t h = h_kv * group_size + item / queries;
      const int64_t i = item % queries;
      float* q = scratch.data() + thread * scratch_floats;
      float* out = q + ld;
      float* bias = out + ld;
      float* scores = bias + cols;
      load_rows(rows_of(args.q, b, h, i, 1), dim, q, ld);
      std::copy_n(f32_row(args.bias, b, h, 0) + queries - 1 - i, num_keys, bias);
      std::fill(bias + num_keys, bias + cols, -std::numeric_limits<float>::infinity());
      relative_attention_row(kv, q, *args.scale, bias, scores, out);
      store_rows(out, ld, dim, row_of(args.out, b, h, i));
    });
  }
  return {};
}

}  // namespace vsa::cpu
