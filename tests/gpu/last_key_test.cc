// The last token of the kv sequence may stand for several equal keys, as the one row of padding of
// a text does: FineArgs::last_key_repeats.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

TilePlan runs(int64_t seq_len, int64_t tile) { return grid_plan({1, 1, seq_len}, {1, 1, tile}); }

/// Query tiles of 64 tokens; every one keeps all kv tiles.
FineResult run_all(const Qkv& in) {
  const Dims q = in.q.dims();
  return gpu::run_fine(
      in, full_lut(q.batch, q.num_heads, in.q_plan.num_tiles(), in.kv_plan.num_tiles()).view());
}

TEST(GpuLastKey, CountsAsOftenAsItSays) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    for (const auto& [seq_len, tile] : {std::pair<int64_t, int64_t>{1, 64}, {65, 64}, {190, 128}}) {
      for (const int64_t repeats : {0, 1, 447, 1'000'000}) {
        for (const float scale : {0.1F, -0.1F}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", head_dim, seq_len, repeats, scale));
          Qkv in =
              make_qkv(DType::kBF16, {2, 2, 1, head_dim}, runs(200, 64), runs(seq_len, tile), 3);
          in.scale = scale;
          in.last_key_repeats = repeats;
          const LutBuffer table = full_lut(2, 2, in.q_plan.num_tiles(), in.kv_plan.num_tiles());
          expect_fine(gpu::run_fine(in, table.view()), in, table.view());
        }
      }
    }
  }
}

/// The kernel recomputes scores where a maximum grew too much; the repeats count there, too.
TEST(GpuLastKey, CountsWhereTheMaximumGrows) {
  VSA_NEEDS_GPU;
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    const int64_t seq_len = 3 * 64 + 9;
    Qkv in = make_qkv(DType::kBF16, {1, 1, 1, head_dim}, runs(64, 64), runs(seq_len, 64), 4);
    for (int64_t s = 3 * 64; s < seq_len; ++s) {
      for (int64_t d = 0; d < head_dim; ++d) in.k.set(0, 0, s, d, 8.0 * in.k.at(0, 0, s, d));
    }
    in.last_key_repeats = 5000;
    const FineResult got = run_all(in);
    const LutBuffer table = full_lut(1, 1, 1, in.kv_plan.num_tiles());
    const FineResult want = test::run_fine(kReference, as_f64(in), table.view());
    EXPECT_LT(relative_l2(got.out, want.out), 0.01);
    EXPECT_LT(relative_l2(got.lse, want.lse), 1e-5);
  }
}

TEST(GpuLastKey, IsRefusedWhereItsSlotIsFullOrNotTheOnlyShortOne) {
  VSA_NEEDS_GPU;
  for (const TilePlan& plan : {runs(128, 64), grid_plan({5, 4, 8}, {4, 4, 4}), runs(70, 48)}) {
    Qkv in = make_qkv(DType::kBF16, {1, 1, 1, 64}, runs(64, 64), plan, 5);
    in.last_key_repeats = 2;
    EXPECT_THAT([&] { static_cast<void>(run_all(in)); },
                testing::Throws<std::exception>(testing::Property(
                    &std::exception::what, testing::HasSubstr("last_key_repeats: expected 0"))));
  }
}

}  // namespace
}  // namespace vsa::test::gpu
