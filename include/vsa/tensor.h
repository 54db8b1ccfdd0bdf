// Tensors as vsa sees them: memory that the caller owns, described by dtype, shape and strides.
// Host-only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace vsa {

/// Element types. f64 is served by the reference backend only.
enum class DType : int { kF32 = 0, kBF16 = 1, kF16 = 2, kF64 = 3 };

/// "f32", "bf16", "f16", "f64"; "unknown" for a value outside the enum.
std::string_view name(DType dtype);
/// Bytes per element; 0 for a value outside the enum.
int64_t size_bytes(DType dtype);

/// A set of dtypes.
class DTypes {
 public:
  constexpr DTypes() = default;                     ///< none
  constexpr DTypes(DType one) : bits_(bit(one)) {}  // NOLINT(google-explicit-constructor)
  constexpr DTypes(std::initializer_list<DType> list) {
    for (const DType t : list) bits_ |= bit(t);
  }
  constexpr bool contains(DType t) const { return (bits_ & bit(t)) != 0; }

 private:
  /// 0 for a value outside the enum, which is therefore in no set.
  static constexpr unsigned bit(DType t) {
    const auto i = static_cast<unsigned>(t);
    return i < 4 ? 1U << i : 0U;
  }
  unsigned bits_ = 0;
};

/// The extents of an attention tensor, for designated initialisers.
struct Dims {
  int64_t batch = 1;
  int64_t num_heads = 1;
  int64_t seq_len = 1;
  int64_t head_dim = 1;
};

/// A 4-D tensor that is written to. Axes are always [B, H, S, D] whatever the memory order; strides
/// (in elements) say where an element lies, so BSHD, BHSD and views of a fused QKV are all the same
/// type. The last axis must be contiguous (stride 1). Does not own its memory.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::array<int64_t, 4> shape{};   ///< [B, H, S, D]
  std::array<int64_t, 4> stride{};  ///< in elements, same axes as shape

  /// Contiguous memory in the order [B, S, H, D].
  static Tensor bshd(void* data, DType dtype, Dims dims);
  /// Contiguous memory in the order [B, H, S, D].
  static Tensor bhsd(void* data, DType dtype, Dims dims);

  bool empty() const { return data == nullptr; }
  int64_t num_elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

/// A 4-D tensor that is only read.
struct ConstTensor {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::array<int64_t, 4> shape{};   ///< [B, H, S, D]
  std::array<int64_t, 4> stride{};  ///< in elements, same axes as shape

  ConstTensor() = default;
  ConstTensor(const Tensor& t)  // NOLINT(google-explicit-constructor): a Tensor can always be read
      : data(t.data), dtype(t.dtype), shape(t.shape), stride(t.stride) {}

  static ConstTensor bshd(const void* data, DType dtype, Dims dims);
  static ConstTensor bhsd(const void* data, DType dtype, Dims dims);

  bool empty() const { return data == nullptr; }
  int64_t num_elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

/// "f32 [1,12,32768,128]": how tensors appear in messages.
std::string to_string(const ConstTensor& tensor);

}  // namespace vsa
