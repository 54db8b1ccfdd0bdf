// A tensor with memory of its own. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/io/safetensors.h"
#include "vsa/tensor.h"

namespace vsa::cli {

/// Which axis order a tensor has in memory and on file: the last axis is head_dim either way.
enum class Layout { kBshd, kBhsd };

/// A [B, H, S, D] tensor in that layout, zeroed. Move-only: views point into it.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(DType dtype, Dims dims, Layout layout);
  OwnedTensor(OwnedTensor&&) = default;
  OwnedTensor& operator=(OwnedTensor&&) = default;

  const Tensor& view() const { return view_; }
  int64_t num_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  /// The shape in the order of the layout.
  std::vector<int64_t> file_shape() const;
  /// The same memory as a file holds it, with `shape` as written there.
  io::TensorView on_file(std::vector<int64_t> shape) const;

 private:
  Layout layout_ = Layout::kBshd;
  std::vector<std::byte> bytes_;
  Tensor view_;
};

/// Fills a tensor with N(0, 1), rounded to its dtype; the same for the same seed everywhere.
void fill_normal(const OwnedTensor& tensor, uint64_t seed);

}  // namespace vsa::cli
