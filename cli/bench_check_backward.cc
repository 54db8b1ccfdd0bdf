// Checks of the backward stages.
#include <cmath>

#include "cli/bench_check.h"
#include "cli/bench_compare.h"
#include "cli/failure.h"

namespace vsa::cli {
namespace {

/// dq of the sampled query tiles, by the reference.
OwnedTensor sampled_dq(FineBackwardArgs args, const TilePlan& plan, const SampledTiles& sample) {
  const OwnedTensor q = gather_tokens(args.q, plan, sample);
  const OwnedTensor out = gather_tokens(args.out, plan, sample);
  const OwnedTensor lse = gather_tokens(args.lse, plan, sample);
  const OwnedTensor dout = gather_tokens(args.dout, plan, sample);
  OwnedTensor dq = like(q.view());
  const OwnedTensor dk = like(args.dk);
  const OwnedTensor dv = like(args.dv);
  LutBuffer lut = gather_rows(args.lut, sample);
  args.q = q.view();
  args.q_plan = &sample.plan;
  args.lut = lut.view();
  args.out = out.view();
  args.lse = lse.view();
  args.dout = dout.view();
  args.dq = dq.view();
  args.dk = dk.view();
  args.dv = dv.view();
  check(vsa::fine_backward(kReference, args));
  return dq;
}

struct KvGradients {
  OwnedTensor dk, dv;
};

/// dk and dv of the sampled kv tiles, by the reference. lse and out are those of all kv tiles, so
/// the probabilities are right although the other tiles are left out.
KvGradients sampled_dkv(FineBackwardArgs args, const TilePlan& plan, const SampledTiles& sample) {
  const OwnedTensor k = gather_tokens(args.k, plan, sample);
  const OwnedTensor v = gather_tokens(args.v, plan, sample);
  const OwnedTensor dq = like(args.dq);
  KvGradients gradients{.dk = like(k.view()), .dv = like(v.view())};
  LutBuffer lut = restrict_columns(args.lut, sample);
  args.k = k.view();
  args.v = v.view();
  args.kv_plan = &sample.plan;
  args.lut = lut.view();
  args.dq = dq.view();
  args.dk = gradients.dk.view();
  args.dv = gradients.dv.view();
  check(vsa::fine_backward(kReference, args));
  return gradients;
}

/// The error of `got`, of which `want` holds the sampled tiles.
double sampled_error(const OwnedTensor& got, const OwnedTensor& want, const TilePlan& plan,
                     const SampledTiles& sample) {
  const OwnedTensor of_sample = gather_tokens(got.view(), plan, sample);
  return relative_l2(of_sample.view(), want.view());
}

/// The error of a token gradient that is the sum of what came through `fine`, given for the sampled
/// tiles, and of what came through the coarse softmax, given as the gradient of the means.
double error_of_sum(const OwnedTensor& got, const OwnedTensor& through_fine,
                    const OwnedTensor& dpooled, const TilePlan& plan, const SampledTiles& sample) {
  const OwnedTensor rows = gather_rows(dpooled.view(), sample);
  const OwnedTensor through_coarse = like(through_fine.view());
  check(vsa::pool_backward(
      kReference, {.dpooled = rows.view(), .plan = &sample.plan, .dx = through_coarse.view()}));
  const OwnedTensor of_sample = gather_tokens(got.view(), plan, sample);
  double error = 0.0;
  double norm = 0.0;
  for (int64_t i = 0; i < of_sample.view().num_elements(); ++i) {  // all three are contiguous
    const auto value = [i](const OwnedTensor& x) {
      return element(x.view().data, x.view().dtype, i);
    };
    const double want = value(through_fine) + value(through_coarse);
    error += (value(of_sample) - want) * (value(of_sample) - want);
    norm += want * want;
  }
  return error == 0.0 ? 0.0 : std::sqrt(error / norm);
}

/// dq and dgate_coarse of the whole operator, for the sampled query tiles.
double attention_q_error(const BenchProblem& p, const SampledTiles& sample) {
  AttentionBackwardArgs args = p.attention_backward();
  const OwnedTensor q = gather_tokens(args.q, p.plan, sample);
  const OwnedTensor gate = gather_tokens(args.gate_coarse.as_tensor(), p.plan, sample);
  const OwnedTensor fine_out = gather_tokens(args.fine_out, p.plan, sample);
  const OwnedTensor lse = gather_tokens(args.lse, p.plan, sample);
  const OwnedTensor dout = gather_tokens(args.dout, p.plan, sample);
  const OwnedTensor dq = like(q.view());
  const OwnedTensor dgate = like(q.view());
  const OwnedTensor dk = like(args.dk);
  const OwnedTensor dv = like(args.dv);
  LutBuffer lut = gather_rows(args.lut, sample);
  args.q = q.view();
  args.gate_coarse = Gate::tensor(gate.view());
  args.q_plan = &sample.plan;
  args.lut = lut.view();
  args.fine_out = fine_out.view();
  args.lse = lse.view();
  args.dout = dout.view();
  args.dq = dq.view();
  args.dk = dk.view();
  args.dv = dv.view();
  args.dgate_coarse = dgate.view();
  check(vsa::attention_backward(kReference, args));
  return worst(
      {sampled_error(p.dq, dq, p.plan, sample), sampled_error(p.dgate, dgate, p.plan, sample)});
}

/// dk and dv of the whole operator, for the sampled kv tiles: the stages one by one, because the
/// fine stage is the only one that is worth sampling.
double attention_kv_error(const BenchProblem& p, const SampledTiles& sample) {
  const OwnedTensor q_pooled = like(p.q_pooled.view());
  const OwnedTensor k_pooled = like(p.k_pooled.view());
  const OwnedTensor v_pooled = like(p.v_pooled.view());
  const OwnedTensor coarse_out = like(p.coarse_out.view());
  const OwnedTensor dcoarse_out = like(p.coarse_out.view());
  const OwnedTensor dfine_out = like(p.dout.view());
  const OwnedTensor dq_pooled = like(p.q_pooled.view());
  const OwnedTensor dk_pooled = like(p.k_pooled.view());
  const OwnedTensor dv_pooled = like(p.v_pooled.view());
  check(vsa::pool(kReference, p.pool(p.q, q_pooled)));
  check(vsa::pool(kReference, p.pool(p.k, k_pooled)));
  check(vsa::pool(kReference, p.pool(p.v, v_pooled)));
  CoarseArgs coarse = p.coarse();
  coarse.q_pooled = q_pooled.view();
  coarse.k_pooled = k_pooled.view();
  coarse.v_pooled = v_pooled.view();
  coarse.coarse_scores = {};
  coarse.coarse_out = coarse_out.view();
  check(vsa::coarse(kReference, coarse));
  CombineBackwardArgs combine = p.combine_backward();
  combine.fine_out = p.attention_fine_out.view();
  combine.coarse_out = coarse_out.view();
  combine.dfine_out = dfine_out.view();
  combine.dcoarse_out = dcoarse_out.view();
  combine.dgate_coarse = {};
  check(vsa::combine_backward(kReference, combine));
  CoarseBackwardArgs backward = p.coarse_backward();
  backward.q_pooled = q_pooled.view();
  backward.k_pooled = k_pooled.view();
  backward.v_pooled = v_pooled.view();
  backward.dcoarse_out = dcoarse_out.view();
  backward.dq_pooled = dq_pooled.view();
  backward.dk_pooled = dk_pooled.view();
  backward.dv_pooled = dv_pooled.view();
  check(vsa::coarse_backward(kReference, backward));
  FineBackwardArgs fine = p.fine_backward(false);
  fine.lut = p.attention_lut.view();
  fine.out = p.attention_fine_out.view();
  fine.lse = p.attention_lse.view();
  fine.dout = dfine_out.view();
  const KvGradients through_fine = sampled_dkv(fine, p.plan, sample);
  return worst({error_of_sum(p.dk, through_fine.dk, dk_pooled, p.plan, sample),
                error_of_sum(p.dv, through_fine.dv, dv_pooled, p.plan, sample)});
}

}  // namespace

CheckResult check_pool_backward(const BenchProblem& p) {
  PoolBackwardArgs args = p.pool_backward();
  const OwnedTensor want = like(args.dx);
  args.dx = want.view();
  check(vsa::pool_backward(kReference, args));
  return {.error = relative_l2(p.pool_dq.view(), want.view()),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_coarse_backward(const BenchProblem& p) {
  CoarseBackwardArgs args = p.coarse_backward();
  const OwnedTensor dq = like(args.dq_pooled);
  const OwnedTensor dk = like(args.dk_pooled);
  const OwnedTensor dv = like(args.dv_pooled);
  args.dq_pooled = dq.view();
  args.dk_pooled = dk.view();
  args.dv_pooled = dv.view();
  check(vsa::coarse_backward(kReference, args));
  return {.error = worst({relative_l2(p.dq_pooled.view(), dq.view()),
                          relative_l2(p.dk_pooled.view(), dk.view()),
                          relative_l2(p.dv_pooled.view(), dv.view())}),
          .tolerance = bench_tolerance(dq.view().dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_fine_backward(const BenchProblem& p, bool full) {
  const FineBackwardArgs args = p.fine_backward(full);
  const SampledTiles sample = affordable_tiles(p, args.lut);
  const OwnedTensor dq = sampled_dq(args, p.plan, sample);
  const KvGradients kv = sampled_dkv(args, p.plan, sample);
  return {.error = worst({sampled_error(p.dq, dq, p.plan, sample),
                          sampled_error(p.dk, kv.dk, p.plan, sample),
                          sampled_error(p.dv, kv.dv, p.plan, sample)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = std::ssize(sample.tiles)};
}

CheckResult check_combine_backward(const BenchProblem& p) {
  CombineBackwardArgs args = p.combine_backward();
  const OwnedTensor dfine_out = like(args.dfine_out);
  const OwnedTensor dcoarse_out = like(args.dcoarse_out);
  const OwnedTensor dgate = like(args.dgate_coarse);
  args.dfine_out = dfine_out.view();
  args.dcoarse_out = dcoarse_out.view();
  args.dgate_coarse = dgate.view();
  check(vsa::combine_backward(kReference, args));
  return {.error = worst({relative_l2(p.dfine_out.view(), dfine_out.view()),
                          relative_l2(p.dcoarse_out.view(), dcoarse_out.view()),
                          relative_l2(p.dgate.view(), dgate.view())}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_attention_backward(const BenchProblem& p) {
  const SampledTiles sample = affordable_tiles(p, p.attention_lut.view());
  return {.error = worst({attention_q_error(p, sample), attention_kv_error(p, sample)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = std::ssize(sample.tiles)};
}

}  // namespace vsa::cli
