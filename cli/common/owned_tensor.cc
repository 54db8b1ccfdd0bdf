// Allocates tensors in either layout, and fills them with random numbers. Host-only.
#include "cli/common/owned_tensor.h"

#include "runtime/sampler/noise.h"
#include "vsa/element.h"

namespace vsa::cli {

OwnedTensor::OwnedTensor(DType dtype, Dims dims, Layout layout)
    : layout_(layout),
      bytes_(static_cast<size_t>(dims.batch * dims.num_heads * dims.seq_len * dims.head_dim *
                                 size_bytes(dtype))),
      view_(layout == Layout::kBshd ? Tensor::bshd(bytes_.data(), dtype, dims)
                                    : Tensor::bhsd(bytes_.data(), dtype, dims)) {}

std::vector<int64_t> OwnedTensor::file_shape() const {
  const auto& s = view_.shape;
  if (layout_ == Layout::kBshd) return {s[0], s[2], s[1], s[3]};
  return {s[0], s[1], s[2], s[3]};
}

io::TensorView OwnedTensor::on_file(std::vector<int64_t> shape) const {
  return {.type = io::to_storage_type(view_.dtype), .shape = std::move(shape), .bytes = bytes_};
}

void fill_normal(const OwnedTensor& tensor, uint64_t seed) {
  const Tensor& to = tensor.view();
  std::vector<float> values(static_cast<size_t>(to.num_elements()));
  sampler::normal(seed, 0, 0, values);
  for (size_t i = 0; i < values.size(); ++i) {
    store_element(to.data, to.dtype, static_cast<int64_t>(i), static_cast<double>(values[i]));
  }
}

}  // namespace vsa::cli
