#include "cli/bench_contestant.h"

#include <algorithm>

#include "cli/cost.h"

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

std::vector<Contestant> forward_stages(BenchProblem& p, const Context& context) {
  const double tile_pairs = static_cast<double>(p.plan.num_tiles() * p.plan.num_tiles());
  const double coarse_flops =
      pair_flops(tile_pairs, p.c.head_dim) * static_cast<double>(p.c.num_heads);
  const double fine_flops = pair_flops_of(p, p.lut.view());
  const double qkv = bytes_of({&p.q, &p.k, &p.v});
  std::vector<Contestant> all;
  all.push_back({.stage = "dense",
                 .baseline = "",
                 .flops = pair_flops_of(p, p.full_lut.view()),
                 .bytes = qkv + bytes_of({&p.full_out, &p.full_lse}),
                 .run = [&p, context] { return vsa::fine(context, p.fine(true)); },
                 .check = [&p] { return check_fine(p, true); }});
  all.push_back({.stage = "pool",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = qkv + bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled}),
                 .run = [&p, context]() -> Status {
                   VSA_TRY(vsa::pool(context, p.pool(p.q, p.q_pooled)));
                   VSA_TRY(vsa::pool(context, p.pool(p.k, p.k_pooled)));
                   return vsa::pool(context, p.pool(p.v, p.v_pooled));
                 },
                 .check = [&p] { return check_pool(p); }});
  all.push_back(
      {.stage = "coarse",
       .baseline = "",
       .flops = coarse_flops,
       .bytes = bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled, &p.scores, &p.coarse_out}),
       .run = [&p, context] { return vsa::coarse(context, p.coarse()); },
       .check = [&p] { return check_coarse(p); }});
  all.push_back({.stage = "select",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.scores}),
                 .run = [&p, context] { return vsa::select(context, p.select()); },
                 .check = [&p] { return check_select(p); }});
  all.push_back({.stage = "fine",
                 .baseline = "dense",
                 .flops = fine_flops,
                 .bytes = qkv + bytes_of({&p.fine_out, &p.lse}),
                 .run = [&p, context] { return vsa::fine(context, p.fine(false)); },
                 .check = [&p] { return check_fine(p, false); }});
  all.push_back({.stage = "combine",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.fine_out, &p.coarse_out, &p.gate, &p.combined}),
                 .run = [&p, context] { return vsa::combine(context, p.combine()); },
                 .check = [&p] { return check_combine(p); }});
  all.push_back(
      {.stage = "attention",
       .baseline = "dense",
       .flops = fine_flops + coarse_flops,
       .bytes = qkv + bytes_of({&p.gate, &p.out, &p.attention_lse, &p.attention_fine_out}),
       .run = [&p, context] { return vsa::attention_forward(context, p.attention()); },
       .check = [&p] { return check_attention(p); }});
  return all;
}

std::vector<Contestant> backward_stages(BenchProblem& p, const Context& context) {
  const double inputs = bytes_of({&p.q, &p.k, &p.v, &p.dout, &p.fine_out, &p.lse});
  const double gradients = bytes_of({&p.dq, &p.dk, &p.dv});
  const double tile_pairs = static_cast<double>(p.plan.num_tiles() * p.plan.num_tiles());
  const double coarse_flops =
      2.5 * pair_flops(tile_pairs, p.c.head_dim) * static_cast<double>(p.c.num_heads);
  const double fine_flops = 2.5 * pair_flops_of(p, p.lut.view());
  std::vector<Contestant> all;
  all.push_back(
      {.stage = "dense_backward",
       .baseline = "",
       .flops = 2.5 * pair_flops_of(p, p.full_lut.view()),
       .bytes = inputs + gradients,
       .run = [&p, context] { return vsa::fine_backward(context, p.fine_backward(true)); },
       .check = [&p] { return check_fine_backward(p, true); }});
  all.push_back({.stage = "pool_backward",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.q_pooled, &p.pool_dq}),
                 .run = [&p, context] { return vsa::pool_backward(context, p.pool_backward()); },
                 .check = [&p] { return check_pool_backward(p); }});
  all.push_back(
      {.stage = "coarse_backward",
       .baseline = "",
       .flops = coarse_flops,
       .bytes =
           2.0 * bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled}) + bytes_of({&p.dcoarse_out}),
       .run = [&p, context] { return vsa::coarse_backward(context, p.coarse_backward()); },
       .check = [&p] { return check_coarse_backward(p); }});
  all.push_back(
      {.stage = "fine_backward",
       .baseline = "dense_backward",
       .flops = fine_flops,
       .bytes = inputs + gradients,
       .run = [&p, context] { return vsa::fine_backward(context, p.fine_backward(false)); },
       .check = [&p] { return check_fine_backward(p, false); }});
  all.push_back(
      {.stage = "combine_backward",
       .baseline = "",
       .flops = 0.0,
       .bytes = bytes_of(
           {&p.fine_out, &p.coarse_out, &p.gate, &p.dout, &p.dfine_out, &p.dcoarse_out, &p.dgate}),
       .run = [&p, context] { return vsa::combine_backward(context, p.combine_backward()); },
       .check = [&p] { return check_combine_backward(p); }});
  all.push_back(
      {.stage = "attention_backward",
       .baseline = "dense_backward",
       .flops = fine_flops + coarse_flops,
       .bytes = inputs + gradients + bytes_of({&p.gate, &p.dgate}),
       .run = [&p, context] { return vsa::attention_backward(context, p.attention_backward()); },
       .check = [&p] { return check_attention_backward(p); }});
  return all;
}

}  // namespace

std::vector<std::string> bench_stages() {
  return {"gemm",
          "dense",
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
  std::vector<Contestant> all;
  all.push_back({.stage = "gemm",
                 .baseline = "",
                 .flops = GemmBase::flops(),
                 .bytes = 0.0,
                 .run = [&gemm]() -> Status {
                   gemm.run();
                   return {};
                 },
                 .check = {}});
  for (Contestant& x : forward_stages(problem, context)) all.push_back(std::move(x));
  for (Contestant& x : backward_stages(problem, context)) all.push_back(std::move(x));
  if (!stages.empty()) {
    std::erase_if(all, [&](const Contestant& x) {
      return std::ranges::find(stages, x.stage) == stages.end();
    });
  }
  return all;
}

}  // namespace vsa::cli
