// Factories and the textual form of tensors. Host-only.
#include "vsa/tensor.h"

#include <fmt/format.h>

namespace vsa {
namespace {

/// a * b modulo 2^64. Extents come from the caller; a size that overflows is refused where the
/// tensor is used, until then the product only has to be defined.
int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class T, class Pointer>
T contiguous(Pointer data, DType dtype, const Dims& d, bool heads_before_tokens) {
  T t;
  t.data = data;
  t.dtype = dtype;
  t.shape = {d.batch, d.num_heads, d.seq_len, d.head_dim};
  const int64_t batch_stride = product(product(d.num_heads, d.seq_len), d.head_dim);
  if (heads_before_tokens) {
    t.stride = {batch_stride, product(d.seq_len, d.head_dim), d.head_dim, 1};
  } else {
    t.stride = {batch_stride, d.head_dim, product(d.num_heads, d.head_dim), 1};
  }
  return t;
}

}  // namespace

int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kF16:
      return 2;
    case DType::kF64:
      return 8;
  }
  return 0;
}

Tensor Tensor::bshd(void* data, DType dtype, Dims dims) {
  return contiguous<Tensor>(data, dtype, dims, false);
}
Tensor Tensor::bhsd(void* data, DType dtype, Dims dims) {
  return contiguous<Tensor>(data, dtype, dims, true);
}
ConstTensor ConstTensor::bshd(const void* data, DType dtype, Dims dims) {
  return contiguous<ConstTensor>(data, dtype, dims, false);
}
ConstTensor ConstTensor::bhsd(const void* data, DType dtype, Dims dims) {
  return contiguous<ConstTensor>(data, dtype, dims, true);
}

std::string to_string(const ConstTensor& t) {
  return fmt::format("{} [{},{},{},{}]", name(t.dtype), t.shape[0], t.shape[1], t.shape[2],
                     t.shape[3]);
}

}  // namespace vsa
