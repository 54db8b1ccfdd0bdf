// A contiguous f32 tensor with memory of its own. Host-only.
#pragma once

#include "src/cpu/support/float_buffer.h"
#include "vsa/tensor.h"

namespace vsa::cpu {

class FloatTensor {
 public:
  FloatTensor() = default;  ///< empty
  explicit FloatTensor(const Dims& dims)
      : memory_(dims.batch * dims.num_heads * dims.seq_len * dims.head_dim),
        view_(Tensor::bhsd(memory_.data(), DType::kF32, dims)) {}
  /// With the batch and heads of x.
  FloatTensor(const ConstTensor& x, int64_t seq_len, int64_t head_dim)
      : FloatTensor(Dims{.batch = x.shape[0],
                         .num_heads = x.shape[1],
                         .seq_len = seq_len,
                         .head_dim = head_dim}) {}
  const Tensor& view() const { return view_; }

 private:
  FloatBuffer memory_;
  Tensor view_;
};

}  // namespace vsa::cpu
