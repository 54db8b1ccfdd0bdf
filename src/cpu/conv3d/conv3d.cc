// conv3d: a row of pixels is a thread's work at a time; what they see becomes rows of a product.
// Host-only.
#include <algorithm>
#include <vector>

#include "src/cpu/linear/linear_kernel.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

constexpr int64_t kMostColumns = 64;  // channels of out in a packed block
constexpr int64_t kPixels = 24;       // of a row, gathered at once

class Convolution {
 public:
  explicit Convolution(const Conv3dArgs& args)
      : args_(args),
        width_(args.x.shape[2] / args.height),
        channels_(args.x.shape[3]),
        k_(args.weight.shape[2] * channels_),
        out_channels_(args.weight.shape[1]),
        columns_(std::min(kMostColumns, round_up_lanes(out_channels_))) {}

  int64_t k() const { return k_; }
  /// Of a packed block.
  int64_t columns() const { return columns_; }
  int64_t num_blocks() const { return (out_channels_ + columns_ - 1) / columns_; }
  int64_t num_rows() const { return args_.out.shape[1] * args_.height; }

  /// packed[block] = the weights of its channels, zeros for those that there are not.
  void pack(int64_t block, const FloatBuffer& rows, float* packed) const {
    const int64_t first = block * columns_;
    const int64_t count = std::min(columns_, out_channels_ - first);
    load_rows({.data = at(args_.weight, first * k_),
               .dtype = args_.weight.dtype,
               .stride = k_,
               .count = count},
              k_, rows.data(), k_);
    std::fill(rows.data() + count * k_, rows.data() + columns_ * k_, 0.0F);
    pack_transposed(rows.data(), k_, columns_, k_, packed);
  }

  /// @param row  of all frames of out
  void run(int64_t row, const FloatBuffer& seen, const FloatBuffer& packed,
           const FloatBuffer& sums) const {
    const int64_t frame = row / args_.height;
    for (int64_t first = 0; first < width_; first += kPixels) {
      const int64_t count = std::min(kPixels, width_ - first);
      for (int64_t i = 0; i < count; ++i) {
        gather(frame, row % args_.height, first + i, seen.data() + i * k_);
      }
      for (int64_t block = 0; block < num_blocks(); ++block) {
        multiply_packed(seen.data(), count, k_, packed.data() + block * columns_ * k_, columns_,
                        sums.data());
        const int64_t column = block * columns_;
        store_rows(sums.data(), columns_, std::min(columns_, out_channels_ - column),
                   {.data = const_cast<void*>(
                        at(args_.out, (row * width_ + first) * out_channels_ + column)),
                    .dtype = args_.out.dtype,
                    .stride = out_channels_,
                    .count = count});
      }
    }
  }

 private:
  static const void* at(const ConstTensor& t, int64_t element) {
    return static_cast<const std::byte*>(t.data) + element * size_bytes(t.dtype);
  }

  /// All that a pixel of out depends on, tap by tap.
  void gather(int64_t frame, int64_t row, int64_t column, float* to) const {
    const int64_t edge = args_.kernel_edge;
    for (int64_t tap = 0; tap < args_.weight.shape[2]; ++tap, to += channels_) {
      const int64_t r = row + tap / edge % edge - edge / 2;
      const int64_t c = column + tap % edge - edge / 2;
      if (r < 0 || r >= args_.height || c < 0 || c >= width_) {
        std::fill_n(to, channels_, 0.0F);
        continue;
      }
      const int64_t f = frame + tap / (edge * edge);
      const int64_t pixel = (f * args_.height + r) * width_ + c;
      const void* const from = at(args_.x, pixel * channels_);
      if (args_.x.dtype == DType::kF32) {
        std::copy_n(static_cast<const float*>(from), channels_, to);
      } else {
        load_rows({.data = from, .dtype = args_.x.dtype, .count = 1}, channels_, to, channels_);
      }
    }
  }

  const Conv3dArgs& args_;
  int64_t width_, channels_, k_, out_channels_, columns_;
};

}  // namespace

Status conv3d(const Context& context, const Conv3dArgs& args) {
  const Convolution convolution(args);
  const int64_t k = convolution.k();
  const FloatBuffer packed(convolution.num_blocks() * convolution.columns() * k);
  std::vector<FloatBuffer> seen, sums;
  for (int i = 0; i < num_threads(context); ++i) {
    seen.emplace_back(std::max(kPixels, convolution.columns()) *
                      k);  // rows to pack, then what pixels see
    sums.emplace_back(kPixels * convolution.columns());
  }
  parallel_for(context, convolution.num_blocks(), [&](int64_t block, int thread) {
    convolution.pack(block, seen[static_cast<size_t>(thread)],
                     packed.data() + block * convolution.columns() * k);
  });
  parallel_for(context, convolution.num_rows(), [&](int64_t row, int thread) {
    convolution.run(row, seen[static_cast<size_t>(thread)], packed,
                    sums[static_cast<size_t>(thread)]);
  });
  return {};
}

}  // namespace vsa::cpu
