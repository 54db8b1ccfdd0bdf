#include "cli/common/owned_tensor.h"

#include <bit>

#include "runtime/sampler/noise.h"

namespace vsa::cli {
namespace {

/// The bf16 nearest to x (finite), ties to even.
uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace

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
        static_cast<uint16_t*>(to.data)[i] = to_bf16(values[i]);
        break;
      case DType::kF16:
        static_cast<_Float16*>(to.data)[i] = static_cast<_Float16>(values[i]);
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
    case DType::kBF16: {
      const uint32_t bits = static_cast<const uint16_t*>(data)[i];
      return static_cast<double>(std::bit_cast<float>(bits << 16));
    }
    case DType::kF16:
      return static_cast<double>(static_cast<const _Float16*>(data)[i]);
    case DType::kF64:
      return static_cast<const double*>(data)[i];
  }
  return 0.0;
}

}  // namespace vsa::cli
