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

/// Gives a contestant what it runs, `stage` with each of `calls`, unless it is refused.
template <class Args>
void set_calls(Contestant& x, const BenchProblem& p, const Context& context,
               Status (*stage)(const Context&, const Args&),
               std::vector<std::type_identity_t<Args>> calls) {
  x.refusal = p.refusal(x.stage, x.reads);
  if (!x.refusal.empty()) return;
  if (context.backend != BackendId::kCuda) {
    x.run = [context, stage, calls = std::move(calls)]() -> Status {
      for (const Args& args : calls) VSA_TRY(stage(context, args));
      return {};
    };
    return;
  }
  const auto device = std::make_shared<Device>();
  for (Args& args : calls) args = on_device(*device, args);
  x.run = [device, stage, calls = std::move(calls)]() -> Status {
    for (const Args& args : calls) {
      VSA_TRY(device->call([&](const Context& c) { return stage(c, args); }));
    }
    return {};
  };
  x.wait = [device] { device->wait(); };
  x.fetch = [device] { device->fetch(); };
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
                 .check = [&p] { return check_fine(p, true); }});
  set_calls(all.back(), p, context, vsa::fine, {p.fine(true)});
  all.push_back({.stage = "pool",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = qkv + bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled}),
                 .check = [&p] { return check_pool(p); }});
  set_calls(all.back(), p, context, vsa::pool,
            {p.pool(p.q, p.q_pooled), p.pool(p.k, p.k_pooled), p.pool(p.v, p.v_pooled)});
  all.push_back(
      {.stage = "coarse",
       .reads = "pool",
       .baseline = "",
       .flops = coarse_flops,
       .bytes = bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled, &p.scores, &p.coarse_out}),
       .check = [&p] { return check_coarse(p); }});
  set_calls(all.back(), p, context, vsa::coarse, {p.coarse()});
  all.push_back({.stage = "select",
                 .reads = "coarse",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.scores}),
                 .check = [&p] { return check_select(p); }});
  set_calls(all.back(), p, context, vsa::select, {p.select()});
  all.push_back({.stage = "fine",
                 .reads = "select",
                 .baseline = "dense",
                 .flops = fine_flops,
                 .bytes = qkv + bytes_of({&p.fine_out, &p.lse}),
                 .check = [&p] { return check_fine(p, false); }});
  set_calls(all.back(), p, context, vsa::fine, {p.fine(false)});
  all.push_back({.stage = "combine",
                 .reads = "fine",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.fine_out, &p.coarse_out, &p.gate, &p.combined}),
                 .check = [&p] { return check_combine(p); }});
  set_calls(all.back(), p, context, vsa::combine, {p.combine()});
  all.push_back(
      {.stage = "attention",
       .baseline = "dense",
       .flops = fine_flops + coarse_flops,
       .bytes = qkv + bytes_of({&p.gate, &p.out, &p.attention_lse, &p.attention_fine_out}),
       .check = [&p] { return check_attention(p); }});
  set_calls(all.back(), p, context, vsa::attention_forward, {p.attention()});
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
  all.push_back({.stage = "dense_backward",
                 .reads = "dense",
                 .baseline = "",
                 .flops = 2.5 * pair_flops_of(p, p.full_lut.view()),
                 .bytes = inputs + gradients,
                 .check = [&p] { return check_fine_backward(p, true); }});
  set_calls(all.back(), p, context, vsa::fine_backward, {p.fine_backward(true)});
  all.push_back({.stage = "pool_backward",
                 .reads = "pool",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.q_pooled, &p.pool_dq}),
                 .check = [&p] { return check_pool_backward(p); }});
  set_calls(all.back(), p, context, vsa::pool_backward, {p.pool_backward()});
  all.push_back({.stage = "coarse_backward",
                 .reads = "combine_backward",
                 .baseline = "",
                 .flops = coarse_flops,
                 .bytes = 2.0 * bytes_of({&p.q_pooled, &p.k_pooled, &p.v_pooled}) +
                          bytes_of({&p.dcoarse_out}),
                 .check = [&p] { return check_coarse_backward(p); }});
  set_calls(all.back(), p, context, vsa::coarse_backward, {p.coarse_backward()});
  all.push_back({.stage = "fine_backward",
                 .reads = "fine",
                 .baseline = "dense_backward",
                 .flops = fine_flops,
                 .bytes = inputs + gradients,
                 .check = [&p] { return check_fine_backward(p, false); }});
  set_calls(all.back(), p, context, vsa::fine_backward, {p.fine_backward(false)});
  all.push_back({.stage = "combine_backward",
                 .reads = "fine",
                 .baseline = "",
                 .flops = 0.0,
                 .bytes = bytes_of({&p.fine_out, &p.coarse_out, &p.gate, &p.dout, &p.dfine_out,
                                    &p.dcoarse_out, &p.dgate}),
                 .check = [&p] { return check_combine_backward(p); }});
  set_calls(all.back(), p, context, vsa::combine_backward, {p.combine_backward()});
  all.push_back({.stage = "attention_backward",
                 .reads = "attention",
                 .baseline = "dense_backward",
                 .flops = fine_flops + coarse_flops,
                 .bytes = inputs + gradients + bytes_of({&p.gate, &p.dgate}),
                 .check = [&p] { return check_attention_backward(p); }});
  set_calls(all.back(), p, context, vsa::attention_backward, {p.attention_backward()});
  return all;
}

Contestant gemm_contestant(GemmBase& gemm, const Context& context) {
  Contestant x{.stage = "gemm", .baseline = "", .flops = GemmBase::flops(), .bytes = 0.0};
  if (context.backend == BackendId::kCuda) {
    x.refusal = "[gemm] backend: expected reference or cpu, got cuda; the GEMM is the processor's";
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
  Contestant of_processor = gemm_contestant(gemm, context);
  if (of_processor.refusal.empty() || !stages.empty()) all.push_back(std::move(of_processor));
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
