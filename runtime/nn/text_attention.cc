// Dense attention to a short list of keys. Host-only.
#include "runtime/nn/text_attention.h"

#include <algorithm>
#include <vector>

#include "runtime/nn/fast_exp.h"
#include "runtime/nn/multiversion.h"

namespace vsa::nn {
namespace {

/// Floats that sums are kept in at a time: they stay in registers, where adding to an array in
/// memory would wait for the store of the addition before.
constexpr int64_t kLanes = 16;

/// One query row of one head. `scores` has room for pitch floats.
struct RowArgs {
  const float* q;     // [head_dim]
  const float* k;     // [head_dim, pitch]
  const float* v;     // [num_keys, value_pitch]
  const float* bias;  // [num_keys] or null
  int64_t num_keys, pitch, head_dim, value_pitch;
  float scale;
  float* scores;
  float* out;  // [head_dim]; may be q
};

/// scale * q . k for kLanes keys from `key` on. Four sums each: one alone would wait 4 cycles for
/// every addition.
VSA_ALWAYS_INLINE void scores_of_lanes(const RowArgs& a, int64_t key) {
  float sum[4][kLanes] = {};
  int64_t d = 0;
  for (; d + 4 <= a.head_dim; d += 4) {
    for (int64_t n = 0; n < 4; ++n) {
      const float* const k = a.k + (d + n) * a.pitch + key;
      for (int64_t i = 0; i < kLanes; ++i) sum[n][i] += a.q[d + n] * k[i];
    }
  }
  for (; d < a.head_dim; ++d) {
    const float* const k = a.k + d * a.pitch + key;
    for (int64_t i = 0; i < kLanes; ++i) sum[0][i] += a.q[d] * k[i];
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    a.scores[key + i] = ((sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i])) * a.scale;
  }
}

VSA_MULTIVERSION void attend_row(const RowArgs& a) {
  float* const scores = a.scores;
  for (int64_t key = 0; key < a.pitch; key += kLanes) scores_of_lanes(a, key);
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
  const float inverse = 1.0F / sum;
  for (int64_t d = 0; d < a.head_dim; d += kLanes) {
    float out[kLanes] = {};
    for (int64_t j = 0; j < a.num_keys; ++j) {
      const float* const v = a.v + j * a.value_pitch + d;
      for (int64_t i = 0; i < kLanes; ++i) out[i] += scores[j] * v[i];
    }
    const int64_t count = std::min(kLanes, a.head_dim - d);
    for (int64_t i = 0; i < count; ++i) a.out[d + i] = out[i] * inverse;
  }
}

int64_t round_up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace

KeyValue::KeyValue(const float* k, const float* v, int64_t num_keys, int64_t num_heads,
                   int64_t head_dim)
    : num_keys_(num_keys),
      pitch_(round_up(num_keys)),
      num_heads_(num_heads),
      head_dim_(head_dim),
      value_pitch_(round_up(head_dim)),
      k_(num_heads * head_dim * pitch_),
      v_(num_heads * num_keys * value_pitch_) {
  std::ranges::fill(k_.span(), 0.0F);
  std::ranges::fill(v_.span(), 0.0F);
  for (int64_t j = 0; j < num_keys; ++j) {
    for (int64_t h = 0; h < num_heads; ++h) {
      const int64_t from = (j * num_heads + h) * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) {
        k_.data()[(h * head_dim + d) * pitch_ + j] = k[from + d];
      }
      std::copy_n(v + from, head_dim, v_.data() + (h * num_keys + j) * value_pitch_);
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
                  .value_pitch = kv.value_pitch(),
                  .scale = args.scale,
                  .scores = scores.data(),
                  .out = args.out + at});
    }
  }
}

}  // namespace vsa::nn
