// The products of the decoder on a device, and the attention that they make. Host-only.
//
// One head over all channels C of a frame's S pixels; S8 is S as a multiple of 8, which `linear`
// needs. Of a frame's norm n:
//
//   q = n Wq + bq [S, C]     k = n Wk + bk [S8, C]     v^T = Wv n^T [C, S8]
//   scores = q k^T, some rows at a time     w = softmax(scores / sqrt(C)) over S columns, 0 behind
//   out = w v + bv     t = out Wo + bo
//
// The weights of a row sum to 1, so bv may be added behind the sum.
#include <algorithm>
#include <cmath>

#include "runtime/vae/device/work.h"
#include "vsa/linear.h"
#include "vsa/softmax.h"

namespace vsa::vae::device {
namespace {

constexpr int64_t kStep = 8;
constexpr int64_t kScoreRows = 1024;  // 25 MB of scores at 480x832, and enough for all of a device

int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

Tensor matrix(void* data, DType dtype, int64_t rows, int64_t columns) {
  return Tensor::bhsd(data, dtype, {.seq_len = rows, .head_dim = columns});
}

/// Pieces of one block, each at a multiple of 256 bytes.
class Pieces {
 public:
  explicit Pieces(void* data) : data_(static_cast<std::byte*>(data)) {}
  std::byte* take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += rounded_up(bytes, 256);
    return data_ == nullptr ? nullptr : data_ + at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_ = 0;
};

}  // namespace

Status Work::multiply(const DeviceLinear& weights, const LinearShape& shape, bool of_x) {
  const Held from = of_x ? x : t;
  const Held to{.rows = from.rows, .width = from.width, .channels = shape.out};
  VSA_TRY(need_x(to, frames));
  if (!only_counts()) {
    const int64_t rows = frames * from.pixels();
    VSA_TRY(call({.kind = "linear"}, vsa::linear,
                 {.x = matrix((of_x ? x_ : t_).data(), token_, rows, shape.in),
                  .weight = matrix(weights.weight.data(), token_, shape.out, shape.in),
                  .bias = matrix(weights.bias.data(), token_, 1, shape.out),
                  .out = matrix((of_x ? t_ : x_).data(), token_, rows, shape.out)}));
  }
  if (!of_x) std::swap(x_, t_);
  t = to;
  return {};
}

Status Work::attend(const AttentionWeights& weights) {
  // The last frame's keys and values reach up to 7 rows beyond it.
  VSA_TRY(need(p_, token_bytes((frames * t.pixels() + kStep - 1) * t.channels), needed_.p));
  t = {.rows = x.rows, .width = x.width, .channels = x.channels};
  VSA_TRY(need_x(t, frames));
  if (!only_counts()) {
    // Any finite numbers do, as their weights are 0.
    VSA_TRY(memory_->fill(
        static_cast<std::byte*>(p_.data()) + token_bytes(frames * t.pixels() * t.channels), 0,
        token_bytes((kStep - 1) * t.channels)));
  }
  for (int64_t f = 0; f < (only_counts() ? 1 : frames); ++f) VSA_TRY(attend_frame(weights, f));
  return {};
}

Status Work::attend_frame(const AttentionWeights& weights, int64_t frame) {
  const int64_t c = t.channels;
  const int64_t s = t.pixels();
  const int64_t s8 = rounded_up(s, kStep);
  Pieces pieces(scratch_.data());
  const Tensor q = matrix(pieces.take(token_bytes(s * c)), token_, s, c);
  const Tensor k = matrix(pieces.take(token_bytes(s8 * c)), token_, s8, c);
  const Tensor v_t = matrix(pieces.take(token_bytes(c * s8)), token_, c, s8);
  const Tensor out = matrix(pieces.take(token_bytes(s * c)), token_, s, c);
  std::byte* const scores = pieces.take(kScoreRows * s8 * size_bytes(DType::kF32));
  std::byte* const probabilities = pieces.take(token_bytes(kScoreRows * s8));
  VSA_TRY(need(scratch_, pieces.bytes(), needed_.scratch));
  if (only_counts()) return {};
  const auto weight = [&](const DeviceLinear& of) {
    return matrix(of.weight.data(), token_, c, c);
  };
  const auto bias_of = [&](const DeviceLinear& of) {
    return ConstTensor(matrix(of.bias.data(), token_, 1, c));
  };
  std::byte* const n = static_cast<std::byte*>(p_.data()) + token_bytes(frame * s * c);
  const auto product = [&](const Tensor& rows, const Tensor& w, const ConstTensor& b,
                           const Tensor& to) {
    return call({.kind = "linear"}, vsa::linear, {.x = rows, .weight = w, .bias = b, .out = to});
  };
  VSA_TRY(product(matrix(n, token_, s, c), weight(weights.q), bias_of(weights.q), q));
  VSA_TRY(product(matrix(n, token_, s8, c), weight(weights.k), bias_of(weights.k), k));
  VSA_TRY(product(weight(weights.v), matrix(n, token_, s8, c), {}, v_t));
  const float scale = 1.0F / std::sqrt(static_cast<float>(c));
  for (int64_t first = 0; first < s; first += kScoreRows) {
    const int64_t rows = std::min(kScoreRows, s - first);
    const auto rows_of = [&](const Tensor& all) {
      return matrix(static_cast<std::byte*>(all.data) + token_bytes(first * c), token_, rows, c);
    };
    const Tensor of_rows = matrix(scores, DType::kF32, rows, s8);
    const Tensor w = matrix(probabilities, token_, rows, s8);
    VSA_TRY(product(rows_of(q), k, {}, of_rows));
    VSA_TRY(call({.kind = "softmax"}, vsa::softmax,
                 {.x = of_rows, .scale = scale, .columns = s, .out = w}));
    VSA_TRY(product(w, v_t, bias_of(weights.v), rows_of(out)));
  }
  return product(
      out, weight(weights.out), bias_of(weights.out),
      matrix(static_cast<std::byte*>(t_.data()) + token_bytes(frame * s * c), token_, s, c));
}

}  // namespace vsa::vae::device
