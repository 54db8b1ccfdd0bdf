#include "tests/support/arena.h"

#include <algorithm>

namespace vsa::test {

// 0x3C in every byte is a finite number near 0.01 in f32 and bf16, 1.06 in f16, 1e-15 in f64.
constexpr std::byte kFill{0x3C};

std::byte* Arena::allocate(int64_t size) {
  return blocks_.emplace_back(static_cast<size_t>(size), kFill, std::pmr::get_default_resource())
      .data();
}

Tensor Arena::tensor(DType dtype, std::array<int64_t, 4> shape) {
  const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
  return Tensor::bshd(allocate(count * size_bytes(dtype)), dtype,
                      {shape[0], shape[1], shape[2], shape[3]});
}

Lut Arena::lut(LutDims dims) {
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  Lut lut{.index = reinterpret_cast<int32_t*>(allocate(rows * dims.pitch * 4)),
          .count = reinterpret_cast<int32_t*>(allocate(rows * 4)),
          .dims = dims};
  std::fill_n(lut.index, rows * dims.pitch, -1);
  for (int64_t row = 0; row < rows; ++row) lut.index[row * dims.pitch] = 0;
  std::fill_n(lut.count, rows, 1);
  return lut;
}

std::vector<std::byte> Arena::bytes() const {
  std::vector<std::byte> all;
  for (const auto& block : blocks_) all.insert(all.end(), block.begin(), block.end());
  return all;
}

}  // namespace vsa::test
