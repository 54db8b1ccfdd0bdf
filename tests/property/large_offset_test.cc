// Offsets beyond 2^31 elements. The memory is reserved, not used: only the pages that hold elements
// are ever touched.
#include <sys/mman.h>

#include "src/core/element.h"
#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/problem.h"

namespace vsa::test {
namespace {

/// A bf16 tensor [2, 1, S, D] whose batch items lie 2^31 + 64 elements apart.
class FarTensor {
 public:
  explicit FarTensor(const Dims& dims)
      : size_(static_cast<size_t>((kStride + dims.seq_len * dims.head_dim) * 2)),
        memory_(mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    view_ = Tensor::bshd(memory_, DType::kBF16, dims);
    view_.stride[0] = kStride;
  }
  FarTensor(const FarTensor&) = delete;
  FarTensor& operator=(const FarTensor&) = delete;
  ~FarTensor() {
    if (reserved()) munmap(memory_, size_);
  }
  bool reserved() const { return memory_ != MAP_FAILED; }
  const Tensor& view() const { return view_; }

  void set(const TestTensor& x) {
    for (int64_t b = 0; b < view_.shape[0]; ++b) {
      for (int64_t s = 0; s < view_.shape[2]; ++s) {
        store_row(view_, b, 0, s, load_row(x.view(), b, 0, s));
      }
    }
  }

 private:
  static constexpr int64_t kStride = (int64_t{1} << 31) + 64;
  size_t size_;
  void* memory_;
  Tensor view_;
};

class LargeOffsets : public BackendTest {};
VSA_FOR_EACH_BACKEND(LargeOffsets);

TEST_P(LargeOffsets, T27_BatchItemsFarApart) {
  VSA_NEEDS(fine);
  const TilePlan plan = TilePlan::grid({2, 5, 5}, {2, 2, 2}).value();
  const Heads heads{.batch = 2, .num_heads = 1, .num_kv_heads = 1, .head_dim = 32};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const LutBuffer lut = random_lut(heads, plan.num_tiles(), plan.num_tiles(), 2);
  const FineResult want = run_fine(context(), in, lut.view());

  FarTensor q(in.q.dims()), k(in.q.dims()), v(in.q.dims()), out(in.q.dims());
  if (!q.reserved() || !k.reserved() || !v.reserved() || !out.reserved()) {
    GTEST_SKIP() << "cannot reserve 4 x 4 GiB of address space";
  }
  q.set(in.q);
  k.set(in.k);
  v.set(in.v);
  throw_if_error(fine(context(), {.q = q.view(),
                                  .k = k.view(),
                                  .v = v.view(),
                                  .q_plan = &plan,
                                  .kv_plan = &plan,
                                  .lut = lut.view(),
                                  .out = out.view()}));
  EXPECT_TRUE(same_bits(out.view(), want.out.view()));
}

}  // namespace
}  // namespace vsa::test
