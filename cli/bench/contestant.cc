// Makes the contestants of a case, with the operations and bytes that each counts. Host-only.
#include "cli/bench/contestant.h"

#include <algorithm>

#include "cli/common/cost.h"
#include "cli/common/device.h"

namespace vsa::cli {
namespace {

double bytes_of(std::initializer_list<const OwnedTensor*> tensors) {
  double bytes = 0.0;
  for (const OwnedTensor* x : tensors) bytes += static_cast<double>(x->num_bytes());
  return bytes;
}

double pair_flops_of(const BenchProblem& p, const ConstLut& lut) {
  return pair_flops(kept_pairs(p.plan, p.plan, lut), p.c.head_dim);
}

/// The check of the first and the last kv head, with the query heads that share them.
CheckResult check_outer_heads(BenchProblem& p, CheckResult (*check)(BenchProblem&)) {
  p.look_at(0, 1);
  CheckResult result = check(p);
  if (result.ok() && p.c.num_kv_heads > 1) {
    p.look_at(p.c.num_kv_heads - 1, 1);
    if (const CheckResult last = check(p); !(last.error <= result.error)) result = last;
  }
  p.look_at(0, p.c.num_kv_heads);
  return result;
}

/// Makes contestants of the calls on a problem.
class Stages {
 public:
  Stages(BenchProblem& problem, const Context& context, const std::vector<std::string>& wanted)
      : p_(problem), context_(context), wanted_(wanted) {}

  /// If wanted, `x` runs `stage` with each of `calls`, unless it is known to be refused.
  template <class Args>
  void add(Contestant x, Status (*stage)(const Context&, const Args&),
           std::vector<std::type_identity_t<Args>> calls, CheckResult (*check)(BenchProblem&)) {
    if (!wanted_.empty() && std::ranges::find(wanted_, x.stage) == wanted_.end()) return;
    x.refusal = p_.refusal(x.stage);
    x.check = [&p = p_, check] { return check_outer_heads(p, check); };
    if (x.refusal.empty() && is_on_device(context_.backend)) {
      x.device = std::make_shared<Device>(context_.backend);
      for (Args& args : calls) args = on_device(*x.device, args);
    }
    x.run = [context = context_, device = x.device, stage, calls = std::move(calls)]() -> Status {
      for (const Args& args : calls) {
        VSA_TRY(device ? device->call([&](const Context& c) { return stage(c, args); })
                       : stage(context, args));
      }
      return {};
    };
    all.push_back(std::move(x));
  }

  std::vector<Contestant> all;

 private:
  BenchProblem& p_;
  Context context_;
  const std::vector<std::string>& wanted_;
};

double coarse_flops(const BenchProblem& p) {
  const auto tiles = static_cast<double>(p.plan.num_tiles());
  return pair_flops(tiles * tiles, p.c.head_dim) * static_cast<double>(p.c.num_heads);
}

void add_forward(Stages& to, BenchProblem& p) {
  const double fine_flops = pair_flops_of(p, p.lut.view());
  const double qkv = bytes_of({&p.q, &p.k, &p.v});
  const double qkv_pooled = bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled});
  to.add({.stage = "dense",
          .flops = pair_flops_of(p, p.full_lut.view()),
          .bytes = qkv + bytes_of({&p.full_out, &p.full_lse})},
         vsa::fine, {p.fine(true)}, [](BenchProblem& x) { return check_fine(x, true); });
  to.add({.stage = "tile", .bytes = bytes_of({&p.q, &p.tiled})}, vsa::tile, {p.tile()},
         [](BenchProblem& x) { return check_tile(x); });
  to.add({.stage = "untile", .bytes = bytes_of({&p.tiled, &p.untiled})}, vsa::untile, {p.untile()},
         [](BenchProblem& x) { return check_untile(x); });
  to.add({.stage = "norm_rope_pool",
          .bytes = 2.0 * bytes_of({&p.normed}) + bytes_of({&p.normed_pooled, &p.cos, &p.sin})},
         vsa::norm_rope_pool, {p.norm_rope_pool()},
         [](BenchProblem& x) { return check_norm_rope_pool(x); });
  to.add({.stage = "residual_norm",
          .bytes = 2.0 * bytes_of({&p.residual}) +
                   bytes_of({&p.gate, &p.residual_normed, &p.modulation})},
         vsa::residual_norm, {p.residual_norm()},
         [](BenchProblem& x) { return check_residual_norm(x); });
  to.add({.stage = "pool", .bytes = qkv + qkv_pooled}, vsa::pool,
         {p.pool(p.at(p.q), p.at(p.q_pooled)), p.pool(p.at(p.k), p.at(p.k_pooled)),
          p.pool(p.at(p.v), p.at(p.v_pooled))},
         [](BenchProblem& x) { return check_pool(x); });
  to.add({.stage = "coarse",
          .flops = coarse_flops(p),
          .bytes = qkv_pooled + bytes_of({&p.scores, &p.coarse_out})},
         vsa::coarse, {p.coarse()}, [](BenchProblem& x) { return check_coarse(x); });
  to.add({.stage = "select", .bytes = bytes_of({&p.scores})}, vsa::select, {p.select()},
         [](BenchProblem& x) { return check_select(x); });
  to.add({.stage = "fine",
          .baseline = "dense",
          .flops = fine_flops,
          .bytes = qkv + bytes_of({&p.fine_out, &p.lse})},
         vsa::fine, {p.fine(false)}, [](BenchProblem& x) { return check_fine(x, false); });
  to.add(
      {.stage = "combine", .bytes = bytes_of({&p.fine_out, &p.coarse_out, &p.gate, &p.combined})},
      vsa::combine, {p.combine()}, [](BenchProblem& x) { return check_combine(x); });
  to.add({.stage = "attention",
          .baseline = "dense",
          .flops = fine_flops + coarse_flops(p),
          .bytes = qkv + bytes_of({&p.gate, &p.out, &p.attention_lse, &p.attention_fine_out})},
         vsa::attention_forward, {p.attention()},
         [](BenchProblem& x) { return check_attention(x); });
}

void add_backward(Stages& to, BenchProblem& p) {
  const double moved =
      bytes_of({&p.q, &p.k, &p.v, &p.dout, &p.fine_out, &p.lse}) + bytes_of({&p.dq, &p.dk, &p.dv});
  const double fine_flops = 2.5 * pair_flops_of(p, p.lut.view());
  to.add({.stage = "dense_backward",
          .flops = 2.5 * pair_flops_of(p, p.full_lut.view()),
          .bytes = moved},
         vsa::fine_backward, {p.fine_backward(true)},
         [](BenchProblem& x) { return check_fine_backward(x, true); });
  to.add({.stage = "pool_backward", .bytes = bytes_of({&p.q_pooled, &p.pool_dq})},
         vsa::pool_backward, {p.pool_backward()},
         [](BenchProblem& x) { return check_pool_backward(x); });
  to.add({.stage = "coarse_backward",
          .flops = 2.5 * coarse_flops(p),
          .bytes =
              2.0 * bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled}) + bytes_of({&p.dcoarse_out})},
         vsa::coarse_backward, {p.coarse_backward()},
         [](BenchProblem& x) { return check_coarse_backward(x); });
  to.add(
      {.stage = "fine_backward", .baseline = "dense_backward", .flops = fine_flops, .bytes = moved},
      vsa::fine_backward, {p.fine_backward(false)},
      [](BenchProblem& x) { return check_fine_backward(x, false); });
  to.add({.stage = "combine_backward",
          .bytes = bytes_of({&p.fine_out, &p.coarse_out, &p.gate, &p.dout, &p.dfine_out,
                             &p.dcoarse_out, &p.dgate})},
         vsa::combine_backward, {p.combine_backward()},
         [](BenchProblem& x) { return check_combine_backward(x); });
  to.add({.stage = "attention_backward",
          .baseline = "dense_backward",
          .flops = fine_flops + 2.5 * coarse_flops(p),
          .bytes = moved + bytes_of({&p.gate, &p.dgate})},
         vsa::attention_backward, {p.attention_backward()},
         [](BenchProblem& x) { return check_attention_backward(x); });
}

Contestant gemm_contestant(GemmBase& gemm, const Context& context) {
  Contestant x{.stage = "gemm", .flops = GemmBase::flops()};
  if (is_on_device(context.backend)) {
    x.refusal = "gemm: backend: expected reference or cpu, got " +
                std::string(name(context.backend)) + "; the GEMM runs on the processor";
  } else {
    x.run = [&gemm]() -> Status {
      gemm.run();
      return {};
    };
  }
  return x;
}

}  // namespace

std::vector<std::string> bench_stages() {
  return {"gemm",
          "dense",
          "tile",
          "untile",
          "norm_rope_pool",
          "residual_norm",
          "pool",
          "coarse",
          "select",
          "fine",
          "combine",
          "attention",
          "dense_backward",
          "pool_backward",
          "coarse_backward",
          "fine_backward",
          "combine_backward",
          "attention_backward"};
}

std::vector<Contestant> contestants(BenchProblem& problem, GemmBase& gemm, const Context& context,
                                    const std::vector<std::string>& stages) {
  Stages to(problem, context, stages);
  const bool named = std::ranges::find(stages, "gemm") != stages.end();
  Contestant gemm_of_processor = gemm_contestant(gemm, context);
  if (named || (stages.empty() && gemm_of_processor.refusal.empty())) {
    to.all.push_back(std::move(gemm_of_processor));
  }
  add_forward(to, problem);
  add_backward(to, problem);
  return std::move(to.all);
}

}  // namespace vsa::cli
