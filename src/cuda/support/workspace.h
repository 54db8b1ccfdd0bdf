// Divides the caller's workspace among the arrays that a call needs, or only adds up their sizes.
// Host-only.
#pragma once

#include <cstdint>
#include <string_view>

#include "vsa/backend.h"

namespace vsa::cuda {

/// The product of extents; INT64_MAX, which no allocation reaches, if 64 bits do not hold it.
template <class... Extents>
constexpr int64_t product(Extents... extents) {
  int64_t all = 1;
  const bool overflows = (__builtin_mul_overflow(all, int64_t{extents}, &all) || ...);
  return overflows ? INT64_MAX : all;
}

/// A call takes all arrays first, in the same order for a query and for a run, and then asks
/// `answers_query` and `status`. A sum beyond the range of int64_t stays at its largest value: a
/// query reports this value, and no workspace is so large.
class Carver {
 public:
  explicit Carver(const Context& context) : context_(context) {}

  /// Memory for an array of these extents at a multiple of 256 bytes; null in a query.
  template <class T, class... Extents>
  T* take(Extents... extents) {
    return static_cast<T*>(take_bytes(product(static_cast<int64_t>(sizeof(T)), extents...)));
  }

  /// A contiguous f32 tensor [B, H, S, D].
  Tensor take_f32(const Dims& d) {
    return Tensor::bhsd(take<float>(d.batch, d.num_heads, d.seq_len, d.head_dim), DType::kF32, d);
  }
  /// A contiguous tensor [B, S, H, D] with the extents and the 16-bit dtype of x.
  Tensor take_like(const ConstTensor& x) {
    const auto& [b, h, s, d] = x.shape;
    return Tensor::bshd(take<uint16_t>(b, h, s, d), x.dtype, {b, h, s, d});
  }

  /// Whether the call is a query. If so, this function answers it, and the caller returns Ok.
  bool answers_query() const;
  /// Whether the workspace is large enough and aligned.
  Status status(std::string_view operation) const;
  const void* data() const { return context_.workspace.data; }

 private:
  void* take_bytes(int64_t size);
  const Context& context_;
  int64_t used_ = 0;
};

}  // namespace vsa::cuda
