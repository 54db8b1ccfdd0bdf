// T27: tensors of more than 2^31 elements, all of them computed; sampled tiles against the
// reference.
#include <algorithm>
#include <set>
#include <utility>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr int64_t kBatch = 2, kHeads = 320, kHeadDim = 128, kTopk = 4;
constexpr int64_t kPeriod = 7;  // so many different (batch, head) slices; the host holds no more
constexpr auto kRowBytes = static_cast<size_t>(kHeadDim * 2);
// 2^31 elements before a row lies one of another head and token.
static_assert(kBatch * kHeads * kHeadDim * 33000 > int64_t{1} << 31);

struct Slice {
  int64_t b, h;
};
constexpr Slice kSampled[] = {{0, 0}, {0, kHeads - 1}, {1, kHeads / 2}, {1, kHeads - 1}};

int64_t kind_of(Slice at) { return (at.b * kHeads + at.h) % kPeriod; }

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

bool has_memory() {
  size_t free = 0;
  size_t all = 0;
  return cudaMemGetInfo(&free, &all) == cudaSuccess && free > size_t{40} << 30;
}

#define NEEDS_A_LARGE_GPU \
  VSA_NEEDS_GPU;          \
  if (!has_memory()) GTEST_SKIP() << "less than 40 GiB of device memory are free"

/// The rows of a slice at the tokens of some tiles, first and last among them.
TestTensor sampled(const TestTensor& x, const TilePlan& plan, const std::vector<int64_t>& tiles) {
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
void fill_row(int32_t* index, int64_t n, int64_t tile, int64_t num_tiles) {
  std::set<int32_t> kept;
  for (int64_t j = 0; static_cast<int64_t>(kept.size()) < kTopk; ++j) {
    kept.insert(static_cast<int32_t>((tile * 7 + n * 13 + j * 61) % num_tiles));
  }
  std::ranges::copy(kept, index);
}

TilePlan large_plan() { return grid_plan({11, 50, 60}, {4, 4, 4}); }  // 33000 tokens, edges cut off

TEST(GpuLarge, T27_TheOperator) {
  NEEDS_A_LARGE_GPU;
  const TilePlan plan = large_plan();
  const int64_t n = plan.num_tiles();
  const LargeTensor q(plan.seq_len(), 1), k(plan.seq_len(), 2), v(plan.seq_len(), 3);
  const LargeTensor gate(plan.seq_len(), 4);
  const LargeTensor out(plan.seq_len());
  LutBuffer table(LutDims{kBatch, kHeads, n, kTopk});
  for (int64_t row = 0; row < kBatch * kHeads * n; ++row) {
    fill_row(table.view().index + row * kTopk, row / n, row % n, n);
    table.view().count[row] = kTopk;
  }
  const DeviceLut there(std::as_const(table).view());
  run_on_gpu([&](const Context& context) {
    return attention_forward(context, {.q = q.view(),
                                       .k = k.view(),
                                       .v = v.view(),
                                       .gate_coarse = Gate::tensor(gate.view()),
                                       .q_plan = &plan,
                                       .kv_plan = &plan,
                                       .lut = there.view(),
                                       .out = out.view()});
  });
  const std::vector<int64_t> tiles{0, 1, n / 2, n - 2, n - 1};
  for (const Slice& at : kSampled) {
    SCOPED_TRACE(testing::Message() << "batch " << at.b << " head " << at.h);
    LutBuffer few(LutDims{1, 1, n, kTopk});  // the other rows are empty: less work
    for (const int64_t tile : tiles) {
      fill_row(few.view().index + tile * kTopk, at.b * kHeads + at.h, tile, n);
      few.view().count[tile] = kTopk;
    }
    const TestTensor wide_gate = gate.slice(at).as(DType::kF64);
    const Qkv in{.q = q.slice(at).as(DType::kF64),
                 .k = k.slice(at).as(DType::kF64),
                 .v = v.slice(at).as(DType::kF64),
                 .q_plan = plan,
                 .kv_plan = plan};
    const AttentionResult want = test::run_attention(
        kReference, in,
        {.gate_coarse = Gate::tensor(wide_gate.view()), .lut = std::as_const(few).view()});
    // A wrong offset is off by 1 and more; the tight bounds are those of small shapes.
    EXPECT_LT(relative_l2(sampled(out.download(at), plan, tiles), sampled(want.out, plan, tiles)),
              0.01);
  }
}

TEST(GpuLarge, T27_TileAndUntile) {
  NEEDS_A_LARGE_GPU;
  const TilePlan plan = large_plan();
  const LargeTensor x(plan.seq_len(), 1);
  const LargeTensor tiled(plan.padded_len());
  const LargeTensor back(plan.seq_len());
  run_on_gpu([&](const Context& context) {
    return tile(context, {.x = x.view(), .plan = &plan, .tiled = tiled.view()});
  });
  run_on_gpu([&](const Context& context) {
    return untile(context, {.tiled = tiled.view(), .plan = &plan, .x = back.view()});
  });
  for (const Slice& at : kSampled) {
    SCOPED_TRACE(testing::Message() << "batch " << at.b << " head " << at.h);
    EXPECT_TRUE(same_bits(tiled.download(at), test::run_tile(kReference, x.slice(at), plan)));
    EXPECT_TRUE(same_bits(back.download(at), x.slice(at)));
  }
}

}  // namespace
}  // namespace vsa::test::gpu
