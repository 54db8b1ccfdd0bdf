// Reads and writes rows of tensors of any dtype as double: for code that is meant to be read, not
// to be fast. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "vsa/element.h"

namespace vsa {

/// Distance in elements from `data` to element (b, h, s, 0) of a Tensor or ConstTensor.
template <class T>
int64_t row_offset(const T& t, int64_t b, int64_t h, int64_t s) {
  return b * t.stride[0] + h * t.stride[1] + s * t.stride[2];
}

/// Row (b, h, s) of the tensor: shape[3] numbers.
inline std::vector<double> load_row(const ConstTensor& t, int64_t b, int64_t h, int64_t s) {
  std::vector<double> row(static_cast<size_t>(t.shape[3]));
  const int64_t start = row_offset(t, b, h, s);
  for (size_t d = 0; d < row.size(); ++d) {
    row[d] = load_element(t.data, t.dtype, start + static_cast<int64_t>(d));
  }
  return row;
}

/// Writes row (b, h, s) of the tensor.
inline void store_row(const Tensor& t, int64_t b, int64_t h, int64_t s,
                      const std::vector<double>& row) {
  const int64_t start = row_offset(t, b, h, s);
  for (size_t d = 0; d < row.size(); ++d) {
    store_element(t.data, t.dtype, start + static_cast<int64_t>(d), row[d]);
  }
}

/// Sets every element of the tensor's shape (not what lies between its strides) to x.
inline void fill(const Tensor& t, double x) {
  const std::vector<double> row(static_cast<size_t>(t.shape[3]), x);
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    for (int64_t h = 0; h < t.shape[1]; ++h) {
      for (int64_t s = 0; s < t.shape[2]; ++s) store_row(t, b, h, s, row);
    }
  }
}

}  // namespace vsa
