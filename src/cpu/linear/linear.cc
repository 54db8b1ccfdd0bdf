// linear: a block of columns of out is one thread's work, so that its weights are packed once.
// Host-only.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/cpu/linear/linear_kernel.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

constexpr int64_t kColumns = 64;  // of out, for one thread at a time
constexpr int64_t kRows = 48;     // of x in f32 scratch

float gelu_tanh(float x) {
  constexpr float kRoot = 0.797884560802865356F;  // sqrt(2 / pi)
  return 0.5F * x * (1.0F + std::tanh(kRoot * (x + 0.044715F * x * x * x)));
}

/// Rows first to first + count - 1 of a matrix, from column `column` on.
template <class To, class Matrix>
To rows_of(const Matrix& t, int64_t first, int64_t count, int64_t column) {
  To rows;
  rows.data = const_cast<std::byte*>(static_cast<const std::byte*>(t.data)) +
              (first * t.stride[2] + column) * size_bytes(t.dtype);
  rows.dtype = t.dtype;
  rows.stride = t.stride[2];
  rows.count = count;
  return rows;
}

/// One thread's memory.
struct Scratch {
  explicit Scratch(int64_t k)
      : weight(kColumns * k),
        packed(kColumns * k),
        x(kRows * k),
        sums(kRows * kColumns),
        bias(kColumns) {}
  FloatBuffer weight, packed, x, sums, bias;
};

void finish(const LinearArgs& args, const float* bias, int64_t count, float* sums) {
  for (int64_t i = 0; i < count * kColumns; ++i) {
    sums[i] += bias[i % kColumns];
    if (args.activation == Activation::kGeluTanh) sums[i] = gelu_tanh(sums[i]);
  }
}

void column_block(const LinearArgs& args, int64_t column, const Scratch& s) {
  const int64_t k = args.x.shape[3];
  const int64_t columns = std::min(kColumns, args.weight.shape[2] - column);
  load_rows(rows_of<Rows>(args.weight, column, columns, 0), k, s.weight.data(), k);
  std::fill(s.weight.data() + columns * k, s.weight.data() + kColumns * k, 0.0F);
  pack_transposed(s.weight.data(), k, kColumns, k, s.packed.data());
  std::fill_n(s.bias.data(), kColumns, 0.0F);
  if (!args.bias.empty()) {
    load_rows(rows_of<Rows>(args.bias, 0, 1, column), columns, s.bias.data(), columns);
  }
  for (int64_t first = 0; first < args.x.shape[2]; first += kRows) {
    const int64_t count = std::min(kRows, args.x.shape[2] - first);
    load_rows(rows_of<Rows>(args.x, first, count, 0), k, s.x.data(), k);
    multiply_packed(s.x.data(), count, k, s.packed.data(), kColumns, s.sums.data());
    finish(args, s.bias.data(), count, s.sums.data());
    store_rows(s.sums.data(), kColumns, columns,
               rows_of<MutableRows>(args.out, first, count, column));
  }
}

}  // namespace

Status linear(const Context& context, const LinearArgs& args) {
  std::vector<Scratch> scratch;
  for (int i = 0; i < num_threads(context); ++i) scratch.emplace_back(args.x.shape[3]);
  const int64_t num_blocks = (args.weight.shape[2] + kColumns - 1) / kColumns;
  parallel_for(context, num_blocks, [&](int64_t item, int thread) {
    column_block(args, item * kColumns, scratch[static_cast<size_t>(thread)]);
  });
  return {};
}

}  // namespace vsa::cpu
