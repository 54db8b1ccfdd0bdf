#include "cli/common/owned_tensor.h"

#include "runtime/sampler/noise.h"
#include "vsa/half.h"

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
    switch (to.dtype) {
      case DType::kF32:
        static_cast<float*>(to.data)[i] = values[i];
        break;
      case DType::kBF16:
        static_cast<BF16*>(to.data)[i] = BF16(values[i]);
        break;
      case DType::kF16:
        static_cast<F16*>(to.data)[i] = F16(values[i]);
        break;
      case DType::kF64:
        static_cast<double*>(to.data)[i] = static_cast<double>(values[i]);
        break;
    }
  }
}

double element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(static_cast<const float*>(data)[i]);
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(static_cast<const BF16*>(data)[i]));
    case DType::kF16:
      return static_cast<double>(static_cast<float>(static_cast<const F16*>(data)[i]));
    case DType::kF64:
      return static_cast<const double*>(data)[i];
  }
  return 0.0;
}

}  // namespace vsa::cli
