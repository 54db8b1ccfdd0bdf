// Dense attention to a short list of keys, as text encoders and cross-attention need it. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/nn/buffer.h"

namespace vsa::nn {

/// Keys and values of one attention, laid out for attend(): keys with the key index fastest.
class KeyValue {
 public:
  KeyValue() = default;
  /// @param k, v  [num_keys, num_heads, head_dim], contiguous
  KeyValue(const float* k, const float* v, int64_t num_keys, int64_t num_heads, int64_t head_dim);

  int64_t num_keys() const { return num_keys_; }
  /// num_keys and head_dim, rounded up to 16 floats: the row lengths of keys and values.
  int64_t pitch() const { return pitch_; }
  int64_t value_pitch() const { return value_pitch_; }
  int64_t num_heads() const { return num_heads_; }
  int64_t head_dim() const { return head_dim_; }
  const float* keys(int64_t head) const { return k_.data() + head * head_dim_ * pitch_; }
  const float* values(int64_t head) const { return v_.data() + head * num_keys_ * value_pitch_; }

 private:
  int64_t num_keys_ = 0, pitch_ = 0, num_heads_ = 0, head_dim_ = 0, value_pitch_ = 0;
  Buffer k_;  // [num_heads, head_dim, pitch], zeros behind num_keys
  Buffer v_;  // [num_heads, num_keys, value_pitch], zeros behind head_dim
};

/// out_i = sum_j softmax_j(scale * q_i . k_j + bias_ij) v_j, on the calling thread.
/// @param q, out  [rows, num_heads, head_dim], contiguous; may be the same
/// @param bias    element (h, i, j) at h * bias_head_stride + i * bias_row_stride + j; may be null
struct AttendArgs {
  const float* q = nullptr;
  int64_t rows = 0;
  const KeyValue* kv = nullptr;
  float scale = 1.0F;
  const float* bias = nullptr;
  int64_t bias_head_stride = 0;
  int64_t bias_row_stride = 0;
  float* out = nullptr;
};
/// Cost: 4 * head_dim FLOP per pair; memory: one row of scores.
void attend(const AttendArgs& args);

}  // namespace vsa::nn
