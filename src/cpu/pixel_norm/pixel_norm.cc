// pixel_norm: some pixels of a frame are a thread's work at a time. Host-only.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

constexpr int64_t kPixels = 32;  // of a work item

/// Pixels of one frame, as the rows that load_rows and store_rows take.
template <class To, class AnyTensor>
To pixels_of(const AnyTensor& t, int64_t b, int64_t h, int64_t first, int64_t count) {
  To rows;
  rows.data = const_cast<std::byte*>(static_cast<const std::byte*>(t.data)) +
              row_offset(t, b, h, first) * size_bytes(t.dtype);
  rows.dtype = t.dtype;
  rows.stride = t.stride[2];
  rows.count = count;
  return rows;
}

void norm(float* v, const float* gamma, int64_t n) {
  float squares = 0.0F;
  for (int64_t i = 0; i < n; ++i) squares += v[i] * v[i];
  constexpr float kLeast = 1e-12F;
  const float length = std::sqrt(squares);
  // Not std::max, which may drop a NaN.
  const float by = std::sqrt(static_cast<float>(n)) / (length < kLeast ? kLeast : length);
  for (int64_t i = 0; i < n; ++i) v[i] = v[i] * by * gamma[i];
}

class PixelNorm {
 public:
  explicit PixelNorm(const PixelNormArgs& args)
      : args_(args), bias_(vector(args.bias)), gamma_(vector(args.gamma)) {}

  void pixels(int64_t b, int64_t h, int64_t first, float* v, float* added) const {
    const int64_t n = args_.y.shape[3];
    const int64_t count = std::min(kPixels, args_.y.shape[2] - first);
    load_rows(pixels_of<Rows>(args_.y, b, h, first, count), n, v, n);
    if (!bias_.empty()) {
      for (int64_t i = 0; i < count * n; ++i) v[i] += bias_[static_cast<size_t>(i % n)];
    }
    if (!args_.x.empty()) {
      if (args_.residual == Residual::kAdd) {
        load_rows(pixels_of<Rows>(args_.x, b, h, first, count), n, added, n);
        for (int64_t i = 0; i < count * n; ++i) v[i] += added[i];
      }
      store_rows(v, n, n, pixels_of<MutableRows>(args_.x, b, h, first, count));
      load_rows(pixels_of<Rows>(args_.x, b, h, first, count), n, v, n);  // as it is stored
    }
    if (args_.out.empty()) return;
    if (!gamma_.empty()) {
      for (int64_t i = 0; i < count; ++i) norm(v + i * n, gamma_.data(), n);
    }
    if (args_.activation == Activation::kSilu) {
      for (int64_t i = 0; i < count * n; ++i) v[i] = v[i] / (1.0F + std::exp(-v[i]));
    }
    store(v, b, h, first, count);
  }

 private:
  static std::vector<float> vector(const ConstTensor& t) {
    const auto* data = static_cast<const float*>(t.data);
    return t.empty() ? std::vector<float>() : std::vector<float>(data, data + t.shape[3]);
  }

  void store(const float* v, int64_t b, int64_t h, int64_t first, int64_t count) const {
    const int64_t n = args_.y.shape[3];
    const int64_t kept = args_.out.shape[3];
    const auto rows = pixels_of<MutableRows>(args_.out, b, h, first, count);
    if (kept == n) return store_rows(v, n, n, rows);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < kept; ++j) {
        store_element(rows.at(i), rows.dtype, j, static_cast<double>(v[i * n + j]));
      }
    }
  }

  const PixelNormArgs& args_;
  std::vector<float> bias_, gamma_;  // empty: left out
};

}  // namespace

Status pixel_norm(const Context& context, const PixelNormArgs& args) {
  const PixelNorm work(args);
  std::vector<FloatBuffer> v, added;
  for (int i = 0; i < num_threads(context); ++i) {
    v.emplace_back(kPixels * args.y.shape[3]);
    added.emplace_back(kPixels * args.y.shape[3]);
  }
  const int64_t per_frame = (args.y.shape[2] + kPixels - 1) / kPixels;
  parallel_for_heads(context, args.y, per_frame,
                     [&](int64_t b, int64_t h, int64_t item, int thread) {
                       const auto mine = static_cast<size_t>(thread);
                       work.pixels(b, h, item * kPixels, v[mine].data(), added[mine].data());
                     });
  return {};
}

}  // namespace vsa::cpu
