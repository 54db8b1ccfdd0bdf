// Checks of the forward stages.
#include "cli/bench/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "cli/bench/compare.h"
#include "cli/common/failure.h"
#include "vsa/element.h"

namespace vsa::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::span<const int32_t> row_of(const ConstLut& lut, int64_t row) {
  return {lut.index + row * lut.dims.pitch, static_cast<size_t>(lut.count[row])};
}

/// 0 if every row keeps the tiles that the scores ask for; a tile may be another one if its score
/// is within rounding of the least score kept. Else infinite.
double selection_error(const ConstLut& got, const ConstLut& want, const ConstTensor& scores) {
  const int64_t num_rows = want.dims.batch * want.dims.num_heads * want.dims.num_q_tiles;
  for (int64_t row = 0; row < num_rows; ++row) {
    const auto kept = row_of(got, row);
    const auto wanted = row_of(want, row);
    if (kept.size() != wanted.size()) return kInfinity;
    if (std::ranges::equal(kept, wanted)) continue;
    const auto score = [&](int32_t tile) {
      return load_element(scores.data, scores.dtype, row * scores.shape[3] + tile);
    };
    double least = kInfinity;
    for (const int32_t tile : wanted) least = std::min(least, score(tile));
    // A score is a sum of D products over means: 1e-5 of its size is a generous rounding error.
    const double slack = 1e-5 * std::max(1.0, std::abs(least));
    for (const int32_t tile : kept) {
      if (!(score(tile) >= least - slack)) return kInfinity;
    }
  }
  return 0.0;
}

/// The scores and the selection of the reference, from q and k.
double attention_selection_error(BenchProblem& p) {
  CoarseArgs coarse = p.coarse();
  const OwnedTensor q = like(coarse.q_pooled);
  const OwnedTensor k = like(coarse.k_pooled);
  const OwnedTensor scores = like(coarse.coarse_scores);
  LutBuffer wanted(p.at(p.lut).dims);
  coarse.q_pooled = q.view();
  coarse.k_pooled = k.view();
  coarse.coarse_scores = scores.view();
  coarse.coarse_out = {};
  SelectArgs select = p.select();
  select.coarse_scores = scores.view();
  select.lut = wanted.view();
  check(vsa::pool(kReference, p.pool(p.at(p.q), q.view())));
  check(vsa::pool(kReference, p.pool(p.at(p.k), k.view())));
  check(vsa::coarse(kReference, coarse));
  check(vsa::select(kReference, select));
  return selection_error(p.at(p.attention_lut), wanted.view(), scores.view());
}

}  // namespace

CheckResult check_tile(const BenchProblem& p) {
  TileArgs args = p.tile();
  Replacements made;
  made.renew({&args.tiled});
  check(vsa::tile(kReference, args));
  return {.error = relative_l2(p.at(p.tiled), args.tiled),
          .tolerance = 0.0,
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_untile(const BenchProblem& p) {
  return {.error = relative_l2(p.at(p.untiled), p.at(p.q)),
          .tolerance = 0.0,
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_norm_rope_pool(const BenchProblem& p) {
  NormRopePoolArgs args = p.norm_rope_pool();
  const OwnedTensor normed = drawn(p.c, p.c.num_heads, kSeedOfQ);
  const OwnedTensor pooled = like(args.pooled);
  args.x = normed.view();
  args.pooled = pooled.view();
  check(vsa::norm_rope_pool(kReference, args));
  // The means are taken after x was rounded to its dtype, so their relative error is that of x.
  return {.error = worst({relative_l2(p.normed.view(), args.x),
                          relative_l2(p.normed_pooled.view(), args.pooled)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_residual_norm(const BenchProblem& p) {
  ResidualNormArgs args = p.residual_norm();
  const OwnedTensor residual = drawn_residual(p.c);
  args.x = residual.view();
  Replacements made;
  made.renew({&args.out});
  check(vsa::residual_norm(kReference, args));
  return {.error = worst({relative_l2(p.residual.view(), args.x),
                          relative_l2(p.residual_normed.view(), args.out)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_pool(const BenchProblem& p) {
  const auto error = [&](const OwnedTensor& x, const OwnedTensor& pooled) {
    const OwnedTensor want = like(p.at(pooled));
    check(vsa::pool(kReference, p.pool(p.at(x), want.view())));
    return relative_l2(p.at(pooled), want.view());
  };
  return {.error = worst({error(p.q, p.q_pooled), error(p.k, p.k_pooled), error(p.v, p.v_pooled)}),
          .tolerance = bench_tolerance(p.q_pooled.view().dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_coarse(const BenchProblem& p) {
  CoarseArgs args = p.coarse();
  Replacements made;
  made.renew({&args.coarse_scores, &args.coarse_out});
  check(vsa::coarse(kReference, args));
  return {.error = worst({relative_l2(p.at(p.scores), args.coarse_scores),
                          relative_l2(p.at(p.coarse_out), args.coarse_out)}),
          .tolerance = bench_tolerance(args.coarse_out.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_select(BenchProblem& p) {
  LutBuffer wanted(p.at(p.lut).dims);
  SelectArgs args = p.select();
  args.lut = wanted.view();
  check(vsa::select(kReference, args));
  const ConstLut got = p.at(p.lut);
  const ConstLut want = wanted.view();
  double error = 0.0;  // the scores are the same, so the tiles must be
  for (int64_t row = 0; row < want.dims.num_heads * want.dims.num_q_tiles; ++row) {
    if (!std::ranges::equal(row_of(got, row), row_of(want, row))) error = kInfinity;
  }
  return {.error = error, .tolerance = 0.0, .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_fine(const BenchProblem& p, bool full) {
  FineArgs args = p.fine(full);
  const SampledTiles sample = affordable_tiles(p, args.lut);
  const OwnedTensor got_out = gather_tokens(args.out, p.plan, sample);
  const OwnedTensor got_lse = gather_tokens(args.lse, p.plan, sample);
  LutBuffer lut = gather_rows(args.lut, sample);
  Replacements made;
  made.gather({&args.q}, p.plan, sample);
  made.renew_like(args.q, {&args.out});
  made.renew_like(got_lse.view(), {&args.lse});
  args.q_plan = &sample.plan;
  args.lut = lut.view();
  check(vsa::fine(kReference, args));
  // lse of padding is whatever the stage writes there; gathering left it 0.
  const OwnedTensor lse_valid =
      gather_tokens(args.lse, sample.plan, sample_tiles(sample.plan, sample.plan.num_tiles()));
  return {.error = worst({relative_l2(got_out.view(), args.out),
                          relative_l2(got_lse.view(), lse_valid.view())}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = std::ssize(sample.tiles)};
}

CheckResult check_combine(const BenchProblem& p) {
  CombineArgs args = p.combine();
  Replacements made;
  made.renew({&args.out});
  check(vsa::combine(kReference, args));
  return {.error = relative_l2(p.at(p.combined), args.out),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_attention(BenchProblem& p) {
  AttentionArgs args = p.attention();
  const SampledTiles sample = affordable_tiles(p, args.lut_out);
  const OwnedTensor got_out = gather_tokens(args.out, p.plan, sample);
  LutBuffer lut = gather_rows(args.lut_out, sample);
  ConstTensor gate = args.gate_coarse.as_tensor();
  Replacements made;
  made.gather({&args.q, &gate}, p.plan, sample);
  made.renew_like(args.q, {&args.out});
  args.gate_coarse = Gate::tensor(gate);
  args.q_plan = &sample.plan;
  args.lut = lut.view();
  args.lse = {};
  args.fine_out = {};
  args.lut_out = {};
  check(vsa::attention_forward(kReference, args));
  return {.error = worst({relative_l2(got_out.view(), args.out), attention_selection_error(p)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = std::ssize(sample.tiles)};
}

}  // namespace vsa::cli
