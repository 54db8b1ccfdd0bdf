// A tensor as kernels address it. rows_of is host-only; the structs are used on host and device.
#pragma once

#include <cstdint>

#include "vsa/tensor.h"

namespace vsa::cuda {

/// The address and the strides, in elements, of a [B, H, S, D] tensor: element (b, h, s, 0) is
/// data[b * batch + h * head + s * seq].
struct Rows {
  void* data = nullptr;
  int64_t batch = 0, head = 0, seq = 0;
};
inline Rows rows_of(const Tensor& t) { return {t.data, t.stride[0], t.stride[1], t.stride[2]}; }

/// The same, read only.
struct ConstRows {
  const void* data = nullptr;
  int64_t batch = 0, head = 0, seq = 0;
};
inline ConstRows rows_of(const ConstTensor& t) {
  return {t.data, t.stride[0], t.stride[1], t.stride[2]};
}

}  // namespace vsa::cuda
