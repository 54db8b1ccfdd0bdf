// residual_norm: some tokens of one batch item are a thread's work at a time. Host-only.
#include <algorithm>
#include <vector>

#include "src/cpu/residual_norm/residual_norm_kernel.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// Tokens of a work item: reading gate, scale and shift then costs little beside them.
constexpr int64_t kTokens = 32;

/// The heads of token (b, s) as the rows that load_rows and store_rows take.
Rows heads_of(const ConstTensor& t, int64_t b, int64_t s) {
  return {
      .data = static_cast<const std::byte*>(t.data) + row_offset(t, b, 0, s) * size_bytes(t.dtype),
      .dtype = t.dtype,
      .stride = t.stride[1],
      .count = t.shape[1]};
}
MutableRows heads_of(const Tensor& t, int64_t b, int64_t s) {
  return {.data = static_cast<std::byte*>(t.data) + row_offset(t, b, 0, s) * size_bytes(t.dtype),
          .dtype = t.dtype,
          .stride = t.stride[1],
          .count = t.shape[1]};
}

/// One thread's memory: all heads of a token of each tensor, [H, D].
struct Scratch {
  explicit Scratch(int64_t width) : x(width), y(width), gate(width), scale(width), shift(width) {}
  FloatBuffer x, y, gate, scale, shift;
};

class ResidualNorm {
 public:
  ResidualNorm(const ResidualNormArgs& args, int64_t b, const Scratch& scratch)
      : args_(args),
        b_(b),
        s_(scratch),
        gate_(load_modulation(args.gate, scratch.gate)),
        scale_(load_modulation(args.scale, scratch.scale)),
        shift_(load_modulation(args.shift, scratch.shift)) {}

  void token(int64_t s) const {
    load(args_.x, s, s_.x);
    if (!args_.y.empty()) add(s);
    if (!args_.out.empty()) norm(s);
  }

 private:
  int64_t head_dim() const { return args_.x.shape[3]; }
  int64_t width() const { return args_.x.shape[1] * head_dim(); }

  void load(const ConstTensor& t, int64_t s, const FloatBuffer& to) const {
    load_rows(heads_of(t, b_, s), head_dim(), to.data(), head_dim());
  }
  void store(const FloatBuffer& from, int64_t s, const Tensor& to) const {
    store_rows(from.data(), head_dim(), head_dim(), heads_of(to, b_, s));
  }
  const float* load_modulation(const ConstTensor& t, const FloatBuffer& to) const {
    if (t.empty()) return nullptr;
    load(t, 0, to);
    return to.data();
  }

  void add(int64_t s) const {
    load(args_.y, s, s_.y);
    add_gated(s_.x.data(), s_.y.data(), gate_, width());
    store(s_.x, s, args_.x);
    if (args_.x.dtype != DType::kF32) load(args_.x, s, s_.x);  // the norm is of what was stored
  }

  void norm(int64_t s) const {
    norm_token({.x = s_.x.data(),
                .n = width(),
                .scale = scale_,
                .shift = shift_,
                .eps = args_.eps,
                .norm = args_.norm,
                .out = s_.y.data()});
    store(s_.y, s, args_.out);
  }

  const ResidualNormArgs& args_;
  const int64_t b_;
  const Scratch& s_;
  const float *gate_, *scale_, *shift_;  // [H, D]; null: left out
};

}  // namespace

Status residual_norm(const Context& context, const ResidualNormArgs& args) {
  const auto& [batch, num_heads, seq_len, head_dim] = args.x.shape;
  std::vector<Scratch> scratch;
  for (int i = 0; i < num_threads(context); ++i) scratch.emplace_back(num_heads * head_dim);
  const int64_t per_batch = (seq_len + kTokens - 1) / kTokens;
  parallel_for(context, batch * per_batch, [&, end = seq_len](int64_t item, int thread) {
    const ResidualNorm work(args, item / per_batch, scratch[static_cast<size_t>(thread)]);
    const int64_t first = item % per_batch * kTokens;
    for (int64_t s = first; s < std::min(first + kTokens, end); ++s) work.token(s);
  });
  return {};
}

}  // namespace vsa::cpu
