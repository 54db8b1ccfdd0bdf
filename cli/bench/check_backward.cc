// Checks of the backward stages.
#include <cmath>

#include "cli/bench/check.h"
#include "cli/bench/compare.h"
#include "cli/common/failure.h"
#include "vsa/element.h"

namespace vsa::cli {
namespace {

/// dq of the sampled query tiles, by the reference.
OwnedTensor sampled_dq(FineBackwardArgs args, const TilePlan& plan, const SampledTiles& sample) {
  LutBuffer lut = gather_rows(args.lut, sample);
  Replacements made;
  made.gather({&args.q, &args.out, &args.lse, &args.dout}, plan, sample);
  made.renew({&args.dk, &args.dv});
  OwnedTensor dq = like(args.q);
  args.dq = dq.view();
  args.q_plan = &sample.plan;
  args.lut = lut.view();
  check(vsa::fine_backward(kReference, args));
  return dq;
}

struct KvGradients {
  OwnedTensor dk, dv;
};

/// dk and dv of the sampled kv tiles, by the reference. lse and out are those of all kv tiles, so
/// the probabilities are right although the other tiles are left out.
KvGradients sampled_dkv(FineBackwardArgs args, const TilePlan& plan, const SampledTiles& sample) {
  LutBuffer lut = restrict_columns(args.lut, sample);
  Replacements made;
  made.gather({&args.k, &args.v}, plan, sample);
  made.renew({&args.dq});
  KvGradients gradients{.dk = like(args.k), .dv = like(args.v)};
  args.dk = gradients.dk.view();
  args.dv = gradients.dv.view();
  args.kv_plan = &sample.plan;
  args.lut = lut.view();
  check(vsa::fine_backward(kReference, args));
  return gradients;
}

/// The error of `got`, of which `want` holds the sampled tiles.
double sampled_error(const ConstTensor& got, const ConstTensor& want, const TilePlan& plan,
                     const SampledTiles& sample) {
  const OwnedTensor of_sample = gather_tokens(got, plan, sample);
  return relative_l2(of_sample.view(), want);
}

/// The error of a token gradient that is the sum of what came through `fine`, given for the sampled
/// tiles, and of what came through the coarse softmax, given as the gradient of the means.
double error_of_sum(const ConstTensor& got, const OwnedTensor& through_fine,
                    const ConstTensor& dpooled, const TilePlan& plan, const SampledTiles& sample) {
  const OwnedTensor rows = gather_rows(dpooled, sample);
  const OwnedTensor through_coarse = like(through_fine.view());
  check(vsa::pool_backward(
      kReference, {.dpooled = rows.view(), .plan = &sample.plan, .dx = through_coarse.view()}));
  const OwnedTensor of_sample = gather_tokens(got, plan, sample);
  double error = 0.0;
  double norm = 0.0;
  for (int64_t i = 0; i < of_sample.view().num_elements(); ++i) {  // all three are contiguous
    const auto value = [i](const OwnedTensor& x) {
      return load_element(x.view().data, x.view().dtype, i);
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
  LutBuffer lut = gather_rows(args.lut, sample);
  ConstTensor gate = args.gate_coarse.as_tensor();
  Replacements made;
  made.gather({&args.q, &gate, &args.fine_out, &args.lse, &args.dout}, p.plan, sample);
  made.renew_like(args.q, {&args.dq, &args.dgate_coarse});
  made.renew({&args.dk, &args.dv});
  args.gate_coarse = Gate::tensor(gate);
  args.q_plan = &sample.plan;
  args.lut = lut.view();
  check(vsa::attention_backward(kReference, args));
  return worst({sampled_error(p.at(p.dq), args.dq, p.plan, sample),
                sampled_error(p.at(p.dgate), args.dgate_coarse, p.plan, sample)});
}

/// dk and dv of the whole operator, for the sampled kv tiles: the stages one by one, because the
/// fine stage is the only one that is worth sampling.
double attention_kv_error(const BenchProblem& p, const SampledTiles& sample) {
  const OwnedTensor q_pooled = like(p.at(p.q_pooled));
  const OwnedTensor k_pooled = like(p.at(p.k_pooled));
  const OwnedTensor v_pooled = like(p.at(p.v_pooled));
  check(vsa::pool(kReference, p.pool(p.at(p.q), q_pooled.view())));
  check(vsa::pool(kReference, p.pool(p.at(p.k), k_pooled.view())));
  check(vsa::pool(kReference, p.pool(p.at(p.v), v_pooled.view())));
  const auto use_pooled = [&](auto& args) {
    args.q_pooled = q_pooled.view();
    args.k_pooled = k_pooled.view();
    args.v_pooled = v_pooled.view();
  };
  Replacements made;
  CoarseArgs coarse = p.coarse();
  use_pooled(coarse);
  coarse.coarse_scores = {};
  made.renew({&coarse.coarse_out});
  check(vsa::coarse(kReference, coarse));
  CombineBackwardArgs combine = p.combine_backward();
  combine.fine_out = p.at(p.attention_fine_out);
  combine.coarse_out = coarse.coarse_out;
  combine.dgate_coarse = {};
  made.renew({&combine.dfine_out, &combine.dcoarse_out});
  check(vsa::combine_backward(kReference, combine));
  CoarseBackwardArgs backward = p.coarse_backward();
  use_pooled(backward);
  backward.dcoarse_out = combine.dcoarse_out;
  made.renew({&backward.dq_pooled, &backward.dk_pooled, &backward.dv_pooled});
  check(vsa::coarse_backward(kReference, backward));
  FineBackwardArgs fine = p.fine_backward(false);
  fine.lut = p.at(p.attention_lut);
  fine.out = p.at(p.attention_fine_out);
  fine.lse = p.at(p.attention_lse);
  fine.dout = combine.dfine_out;
  const KvGradients through_fine = sampled_dkv(fine, p.plan, sample);
  return worst({error_of_sum(p.at(p.dk), through_fine.dk, backward.dk_pooled, p.plan, sample),
                error_of_sum(p.at(p.dv), through_fine.dv, backward.dv_pooled, p.plan, sample)});
}

}  // namespace

CheckResult check_pool_backward(const BenchProblem& p) {
  PoolBackwardArgs args = p.pool_backward();
  Replacements made;
  made.renew({&args.dx});
  check(vsa::pool_backward(kReference, args));
  return {.error = relative_l2(p.at(p.pool_dq), args.dx),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_coarse_backward(const BenchProblem& p) {
  CoarseBackwardArgs args = p.coarse_backward();
  Replacements made;
  made.renew({&args.dq_pooled, &args.dk_pooled, &args.dv_pooled});
  check(vsa::coarse_backward(kReference, args));
  // With one tile the softmax has no gradient. dq and dk are then rounding errors, and their bound
  // is relative to dv.
  const double least = 0.1 * l2(args.dv_pooled);
  return {.error = worst({relative_l2(p.at(p.dq_pooled), args.dq_pooled, least),
                          relative_l2(p.at(p.dk_pooled), args.dk_pooled, least),
                          relative_l2(p.at(p.dv_pooled), args.dv_pooled)}),
          .tolerance = bench_tolerance(args.dq_pooled.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_fine_backward(const BenchProblem& p, bool full) {
  const FineBackwardArgs args = p.fine_backward(full);
  const SampledTiles sample = affordable_tiles(p, args.lut);
  const OwnedTensor dq = sampled_dq(args, p.plan, sample);
  const KvGradients kv = sampled_dkv(args, p.plan, sample);
  return {.error = worst({sampled_error(p.at(p.dq), dq.view(), p.plan, sample),
                          sampled_error(p.at(p.dk), kv.dk.view(), p.plan, sample),
                          sampled_error(p.at(p.dv), kv.dv.view(), p.plan, sample)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = std::ssize(sample.tiles)};
}

CheckResult check_combine_backward(const BenchProblem& p) {
  CombineBackwardArgs args = p.combine_backward();
  Replacements made;
  made.renew({&args.dfine_out, &args.dcoarse_out, &args.dgate_coarse});
  check(vsa::combine_backward(kReference, args));
  return {.error = worst({relative_l2(p.at(p.dfine_out), args.dfine_out),
                          relative_l2(p.at(p.dcoarse_out), args.dcoarse_out),
                          relative_l2(p.at(p.dgate), args.dgate_coarse)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = p.plan.num_tiles()};
}

CheckResult check_attention_backward(const BenchProblem& p) {
  const SampledTiles sample = affordable_tiles(p, p.at(p.attention_lut));
  return {.error = worst({attention_q_error(p, sample), attention_kv_error(p, sample)}),
          .tolerance = bench_tolerance(p.c.dtype),
          .tiles_checked = std::ssize(sample.tiles)};
}

}  // namespace vsa::cli
