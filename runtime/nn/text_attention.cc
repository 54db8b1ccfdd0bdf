// Dense attention to a short list of keys. Host-only.
#include "runtime/nn/text_attention.h"

#include <algorithm>
#include <vector>

#include "runtime/nn/fast_exp.h"
#include "runtime/nn/multiversion.h"

namespace vsa::nn {
namespace {

/// One query row of one head. `scores` has room for pitch floats.
struct RowArgs {
  const float* q;     // [head_dim]
  const float* k;     // [head_dim, pitch]
  const float* v;     // [num_keys, head_dim]
  const float* bias;  // [num_keys] or null
  int64_t num_keys, pitch, head_dim;
  float scale;
  float* scores;
  float* out;  // [head_dim]; may be q
};

VSA_MULTIVERSION void attend_row(const RowArgs& a) {
  float* const scores = a.scores;
  for (int64_t j = 0; j < a.pitch; ++j) scores[j] = 0.0F;
  for (int64_t d = 0; d < a.head_dim; ++d) {
    const float qd = a.q[d] * a.scale;
    const float* const k = a.k + d * a.pitch;
#pragma omp simd
    for (int64_t j = 0; j < a.pitch; ++j) scores[j] += qd * k[j];
  }
  if (a.bias != nullptr) {
    for (int64_t j = 0; j < a.num_keys; ++j) scores[j] += a.bias[j];
  }
  float largest = scores[0];
  for (int64_t j = 1; j < a.num_keys; ++j) largest = std::max(largest, scores[j]);
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < a.num_keys; ++j) {
    scores[j] = exp_nonpositive(scores[j] - largest);
    sum += scores[j];
  }
  for (int64_t d = 0; d < a.head_dim; ++d) a.out[d] = 0.0F;
  const float inverse = 1.0F / sum;
  for (int64_t j = 0; j < a.num_keys; ++j) {
    const float p = scores[j] * inverse;
    const float* const v = a.v + j * a.head_dim;
#pragma omp simd
    for (int64_t d = 0; d < a.head_dim; ++d) a.out[d] += p * v[d];
  }
}

}  // namespace

KeyValue::KeyValue(const float* k, const float* v, int64_t num_keys, int64_t num_heads,
                   int64_t head_dim)
    : num_keys_(num_keys),
      pitch_((num_keys + 15) / 16 * 16),
      num_heads_(num_heads),
      head_dim_(head_dim),
      k_(num_heads * head_dim * pitch_),
      v_(num_heads * num_keys * head_dim) {
  std::ranges::fill(k_.span(), 0.0F);
  for (int64_t j = 0; j < num_keys; ++j) {
    for (int64_t h = 0; h < num_heads; ++h) {
      const int64_t from = (j * num_heads + h) * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) {
        k_.data()[(h * head_dim + d) * pitch_ + j] = k[from + d];
      }
      std::copy_n(v + from, head_dim, v_.data() + (h * num_keys + j) * head_dim);
    }
  }
}

void attend(const AttendArgs& args) {
  const KeyValue& kv = *args.kv;
  std::vector<float> scores(static_cast<size_t>(kv.pitch()));
  for (int64_t i = 0; i < args.rows; ++i) {
    for (int64_t h = 0; h < kv.num_heads(); ++h) {
      const int64_t at = (i * kv.num_heads() + h) * kv.head_dim();
      const float* bias = args.bias == nullptr
                              ? nullptr
                              : args.bias + h * args.bias_head_stride + i * args.bias_row_stride;
      attend_row({.q = args.q + at,
                  .k = kv.keys(h),
                  .v = kv.values(h),
                  .bias = bias,
                  .num_keys = kv.num_keys(),
                  .pitch = kv.pitch(),
                  .head_dim = kv.head_dim(),
                  .scale = args.scale,
                  .scores = scores.data(),
                  .out = args.out + at});
    }
  }
}

}  // namespace vsa::nn
