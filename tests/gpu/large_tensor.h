// Tensors of more than 2^31 elements on the device, of which the host holds seven slices that
// repeat.
#pragma once

#include <algorithm>
#include <set>
#include <utility>

#include "tests/gpu/cases.h"

namespace vsa::test::gpu {

inline constexpr int64_t kBatch = 2, kHeads = 320, kHeadDim = 128, kTopk = 4;
inline constexpr int64_t kPeriod =
    7;  // so many different (batch, head) slices; the host holds no more
inline constexpr auto kRowBytes = static_cast<size_t>(kHeadDim * 2);
// 2^31 elements before a row lies one of another head and token.
static_assert(kBatch * kHeads * kHeadDim * 33000 > int64_t{1} << 31);

struct Slice {
  int64_t b, h;
};
inline constexpr Slice kSampled[] = {{0, 0}, {0, kHeads - 1}, {1, kHeads / 2}, {1, kHeads - 1}};

inline int64_t kind_of(Slice at) { return (at.b * kHeads + at.h) % kPeriod; }

/// bf16 [B, S, H, D] on the device; the second half of the last batch item lies beyond 2^31
/// elements.
class LargeTensor {
 public:
  explicit LargeTensor(int64_t seq_len)
      : seq_len_(seq_len), memory_(kBatch * seq_len * kHeads * kHeadDim * 2) {}
  LargeTensor(int64_t seq_len, uint64_t seed) : LargeTensor(seq_len) {
    for (int64_t kind = 0; kind < kPeriod; ++kind) {
      slices_.push_back(
          normal_tensor(DType::kBF16, slice_dims(), seed * 100 + static_cast<uint64_t>(kind)));
      const DeviceBytes there(seq_len * kHeadDim * 2);
      expect_cuda(cudaMemcpy(there.data(), std::as_const(slices_.back()).view().data,
                             static_cast<size_t>(there.size()), cudaMemcpyHostToDevice));
      for (int64_t b = 0; b < kBatch; ++b) {
        for (int64_t h = 0; h < kHeads; ++h) {
          if (kind_of({b, h}) == kind) copy(at({b, h}), kPitch, there.data(), kRowBytes);
        }
      }
      expect_cuda(cudaDeviceSynchronize());
    }
  }

  Tensor view() const {
    return Tensor::bshd(memory_.data(), DType::kBF16, {kBatch, kHeads, seq_len_, kHeadDim});
  }
  const TestTensor& slice(Slice which) const {
    return slices_[static_cast<size_t>(kind_of(which))];
  }
  /// [1, 1, S, D] as it is on the device.
  TestTensor download(Slice which) const {
    TestTensor to(DType::kBF16, slice_dims());
    copy(to.view().data, kRowBytes, at(which), kPitch);
    return to;
  }

 private:
  static constexpr size_t kPitch = kRowBytes * kHeads;
  Dims slice_dims() const { return {1, 1, seq_len_, kHeadDim}; }
  std::byte* at(Slice which) const {
    return memory_.data() +
           (which.b * seq_len_ * kHeads + which.h) * static_cast<int64_t>(kRowBytes);
  }
  void copy(void* to, size_t to_pitch, const void* from, size_t from_pitch) const {
    expect_cuda(cudaMemcpy2D(to, to_pitch, from, from_pitch, kRowBytes,
                             static_cast<size_t>(seq_len_), cudaMemcpyDefault));
  }

  int64_t seq_len_;
  DeviceBytes memory_;
  std::vector<TestTensor> slices_;
};

inline bool has_memory(int64_t gib) {
  size_t free = 0;
  size_t all = 0;
  return cudaMemGetInfo(&free, &all) == cudaSuccess && free > static_cast<size_t>(gib) << 30;
}

#define NEEDS_A_LARGE_GPU(gib) \
  VSA_NEEDS_GPU;               \
  if (!has_memory(gib)) GTEST_SKIP() << "less than " << (gib) << " GiB of device memory are free"

/// The rows of a slice at the tokens of some tiles, first and last among them.
inline TestTensor sampled(const TestTensor& x, const TilePlan& plan,
                          const std::vector<int64_t>& tiles) {
  std::vector<int32_t> tokens;
  for (const int64_t tile : tiles) {
    const auto of_tile = plan.tokens(tile);
    tokens.insert(tokens.end(), of_tile.begin(), of_tile.end());
  }
  TestTensor rows(DType::kF64, {1, 1, static_cast<int64_t>(tokens.size()), kHeadDim});
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (int64_t d = 0; d < kHeadDim; ++d) {
      rows.set(0, 0, static_cast<int64_t>(i), d, x.at(0, 0, tokens[i], d));
    }
  }
  return rows;
}

/// kTopk tiles for row `tile` of slice number `n`, ascending, other ones for each.
inline void fill_row(int32_t* index, int64_t n, int64_t tile, int64_t num_tiles) {
  std::set<int32_t> kept;
  for (int64_t j = 0; static_cast<int64_t>(kept.size()) < kTopk; ++j) {
    kept.insert(static_cast<int32_t>((tile * 7 + n * 13 + j * 61) % num_tiles));
  }
  std::ranges::copy(kept, index);
}

/// Those rows for every head.
inline LutBuffer large_table(int64_t num_tiles) {
  LutBuffer table(LutDims{kBatch, kHeads, num_tiles, kTopk});
  for (int64_t row = 0; row < kBatch * kHeads * num_tiles; ++row) {
    fill_row(table.view().index + row * kTopk, row / num_tiles, row % num_tiles, num_tiles);
    table.view().count[row] = kTopk;
  }
  return table;
}

inline TilePlan large_plan() {
  return grid_plan({11, 50, 60}, {4, 4, 4});
}  // 33000 tokens, edges cut off

}  // namespace vsa::test::gpu
