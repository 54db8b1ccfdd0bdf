#include "cli/bench/problem.h"

#include "cli/common/device.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

OwnedTensor tokens(const BenchCase& c, int64_t heads) {
  return OwnedTensor(
      c.dtype,
      {.batch = 1, .num_heads = heads, .seq_len = c.grid.num_tokens(), .head_dim = c.head_dim},
      Layout::kBshd);
}

DType tile_dtype(const BenchCase& c) { return c.dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

OwnedTensor rows(const BenchCase& c, int64_t heads, int64_t num_rows, int64_t width) {
  return OwnedTensor(tile_dtype(c),
                     {.batch = 1, .num_heads = heads, .seq_len = num_rows, .head_dim = width},
                     Layout::kBhsd);
}

OwnedTensor drawn(const BenchCase& c, int64_t heads, uint64_t seed) {
  OwnedTensor x = tokens(c, heads);
  fill_normal(x, seed);
  return x;
}

LutDims table(const BenchCase& c, int64_t num_tiles, int64_t pitch) {
  return {.batch = 1, .num_heads = c.num_heads, .num_q_tiles = num_tiles, .pitch = pitch};
}

}  // namespace

BenchProblem::BenchProblem(const BenchCase& bench_case)
    : c(bench_case), plan(take(TilePlan::grid(c.grid, c.tile))) {
  const int64_t n = plan.num_tiles();
  const int64_t s = plan.seq_len();
  q = drawn(c, c.num_heads, 1);
  k = drawn(c, c.num_kv_heads, 2);
  v = drawn(c, c.num_kv_heads, 3);
  gate = drawn(c, c.num_heads, 4);
  dout = drawn(c, c.num_heads, 5);
  for (OwnedTensor* x : {&q_pooled, &coarse_out, &dcoarse_out, &dq_pooled}) {
    *x = rows(c, c.num_heads, n, c.head_dim);
  }
  for (OwnedTensor* x : {&k_pooled, &v_pooled, &dk_pooled, &dv_pooled}) {
    *x = rows(c, c.num_kv_heads, n, c.head_dim);
  }
  scores = rows(c, c.num_heads, n, n);
  lut = attention_lut = LutBuffer(table(c, n, c.topk));
  full_lut = LutBuffer::dense(table(c, n, n));
  for (OwnedTensor* x : {&lse, &full_lse, &attention_lse}) *x = rows(c, c.num_heads, s, 1);
  for (OwnedTensor* x : {&fine_out, &full_out, &combined, &out, &attention_fine_out, &dfine_out,
                         &pool_dq, &dq, &dgate}) {
    *x = tokens(c, c.num_heads);
  }
  for (OwnedTensor* x : {&dk, &dv}) *x = tokens(c, c.num_kv_heads);
}

void BenchProblem::prepare(const Context& context, bool full) {
  run_stage("pool", "", [&]() -> Status {
    VSA_TRY(on_backend(context, vsa::pool, pool(q, q_pooled)));
    VSA_TRY(on_backend(context, vsa::pool, pool(k, k_pooled)));
    return on_backend(context, vsa::pool, pool(v, v_pooled));
  });
  run_stage("coarse", "pool", [&] { return on_backend(context, vsa::coarse, coarse()); });
  run_stage("select", "coarse", [&] { return on_backend(context, vsa::select, select()); });
  run_stage("fine", "select", [&] { return on_backend(context, vsa::fine, fine(false)); });
  if (full) run_stage("dense", "", [&] { return on_backend(context, vsa::fine, fine(true)); });
  run_stage("attention", "",
            [&] { return on_backend(context, vsa::attention_forward, attention()); });
  run_stage("combine_backward", "fine",
            [&] { return on_backend(context, vsa::combine_backward, combine_backward()); });
}

std::string BenchProblem::refusal(const std::string& stage, const std::string& reads) const {
  for (const std::string& name : {stage, reads}) {
    if (const auto found = refusals_.find(name); found != refusals_.end()) return found->second;
  }
  return "";
}

void BenchProblem::run_stage(const std::string& stage, const std::string& reads,
                             const std::function<Status()>& call) {
  std::string why = refusal(stage, reads);
  if (why.empty()) {
    const Status status = call();
    if (status.ok()) return;
    if (status.code() != StatusCode::kUnsupported) check(status);
    why = status.message();
  }
  refusals_[stage] = why;
}

PoolArgs BenchProblem::pool(const OwnedTensor& x, const OwnedTensor& pooled) const {
  return {.x = x.view(), .plan = &plan, .pooled = pooled.view()};
}

CoarseArgs BenchProblem::coarse() const {
  return {.q_pooled = q_pooled.view(),
          .k_pooled = k_pooled.view(),
          .v_pooled = v_pooled.view(),
          .kv_plan = &plan,
          .scale = {},
          .coarse_scores = scores.view(),
          .coarse_out = coarse_out.view()};
}

SelectArgs BenchProblem::select() {
  return {.coarse_scores = scores.view(),
          .options = {.topk = c.topk, .forced_columns = {}, .dense_rows = {}},
          .lut = lut.view()};
}

template <class Args>
Args BenchProblem::on_tokens() const {
  Args args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.q_plan = args.kv_plan = &plan;
  return args;
}

FineArgs BenchProblem::fine(bool full) const {
  auto args = on_tokens<FineArgs>();
  args.lut = full ? full_lut.view() : lut.view();
  args.out = full ? full_out.view() : fine_out.view();
  args.lse = full ? full_lse.view() : lse.view();
  return args;
}

CombineArgs BenchProblem::combine() const {
  return {.fine_out = fine_out.view(),
          .coarse_out = coarse_out.view(),
          .gate_coarse = Gate::tensor(gate.view()),
          .gate_fine = Gate::one(),
          .q_plan = &plan,
          .out = combined.view()};
}

AttentionArgs BenchProblem::attention() {
  auto args = on_tokens<AttentionArgs>();
  args.gate_coarse = Gate::tensor(gate.view());
  args.select.topk = c.topk;
  args.out = out.view();
  args.lse = attention_lse.view();
  args.fine_out = attention_fine_out.view();
  args.lut_out = attention_lut.view();
  return args;
}

PoolBackwardArgs BenchProblem::pool_backward() const {
  return {.dpooled = q_pooled.view(), .plan = &plan, .dx = pool_dq.view()};
}

CoarseBackwardArgs BenchProblem::coarse_backward() const {
  return {.q_pooled = q_pooled.view(),
          .k_pooled = k_pooled.view(),
          .v_pooled = v_pooled.view(),
          .kv_plan = &plan,
          .scale = {},
          .dcoarse_out = dcoarse_out.view(),
          .dq_pooled = dq_pooled.view(),
          .dk_pooled = dk_pooled.view(),
          .dv_pooled = dv_pooled.view()};
}

FineBackwardArgs BenchProblem::fine_backward(bool full) const {
  auto args = on_tokens<FineBackwardArgs>();
  args.lut = full ? full_lut.view() : lut.view();
  args.out = full ? full_out.view() : fine_out.view();
  args.lse = full ? full_lse.view() : lse.view();
  args.dout = dout.view();
  args.dq = dq.view();
  args.dk = dk.view();
  args.dv = dv.view();
  return args;
}

CombineBackwardArgs BenchProblem::combine_backward() const {
  return {.fine_out = fine_out.view(),
          .coarse_out = coarse_out.view(),
          .gate_coarse = Gate::tensor(gate.view()),
          .gate_fine = Gate::one(),
          .q_plan = &plan,
          .dout = dout.view(),
          .dfine_out = dfine_out.view(),
          .dcoarse_out = dcoarse_out.view(),
          .dgate_coarse = dgate.view(),
          .dgate_fine = {}};
}

AttentionBackwardArgs BenchProblem::attention_backward() const {
  auto args = on_tokens<AttentionBackwardArgs>();
  args.gate_coarse = Gate::tensor(gate.view());
  args.lut = attention_lut.view();
  args.lse = attention_lse.view();
  args.fine_out = attention_fine_out.view();
  args.dout = dout.view();
  args.dq = dq.view();
  args.dk = dk.view();
  args.dv = dv.view();
  args.dgate_coarse = dgate.view();
  return args;
}

}  // namespace vsa::cli
