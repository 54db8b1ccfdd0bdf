// Allocates the tensors of a case, and fills the arguments of every call. Host-only.
#include "cli/bench/problem.h"

#include <cmath>

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

/// The cosines or sines of a rotary embedding in which token s rotates pair j by s / 2^j.
OwnedTensor angles(const BenchCase& c, double (*of)(double)) {
  OwnedTensor x = rows(c, 1, c.grid.num_tokens(), c.head_dim / 2);
  const Tensor& to = x.view();
  for (int64_t i = 0; i < to.num_elements(); ++i) {
    const double value =
        of(std::ldexp(static_cast<double>(i / to.shape[3]), -static_cast<int>(i % to.shape[3])));
    if (to.dtype == DType::kF64) {
      static_cast<double*>(to.data)[i] = value;
    } else {
      static_cast<float*>(to.data)[i] = static_cast<float>(value);
    }
  }
  return x;
}

LutDims table(const BenchCase& c, int64_t num_tiles, int64_t pitch) {
  return {.batch = 1, .num_heads = c.num_heads, .num_q_tiles = num_tiles, .pitch = pitch};
}

TilePlan plan_of(const BenchCase& c) {
  TilePlan plan = take(TilePlan::grid(c.grid, c.tiling));
  return c.in_compact_order ? plan.in_compact_order() : plan;
}

/// The stage whose outputs `stage` reads; empty: it reads the inputs of the case alone.
std::string read_by(const std::string& stage) {
  static const std::map<std::string, std::string> kReads = {{"untile", "tile"},
                                                            {"coarse", "pool"},
                                                            {"select", "coarse"},
                                                            {"fine", "select"},
                                                            {"combine", "fine"},
                                                            {"dense_backward", "dense"},
                                                            {"pool_backward", "pool"},
                                                            {"coarse_backward", "combine_backward"},
                                                            {"fine_backward", "fine"},
                                                            {"combine_backward", "fine"},
                                                            {"attention_backward", "attention"}};
  const auto found = kReads.find(stage);
  return found == kReads.end() ? "" : found->second;
}

}  // namespace

OwnedTensor drawn(const BenchCase& c, int64_t heads, uint64_t seed) {
  OwnedTensor x = tokens(c, heads);
  fill_normal(x, seed);
  return x;
}

OwnedTensor drawn_residual(const BenchCase& c) {
  BenchCase in_f32 = c;
  in_f32.dtype = tile_dtype(c);
  return drawn(in_f32, c.num_heads, 6);
}

BenchProblem::BenchProblem(const BenchCase& bench_case)
    : c(bench_case), plan(plan_of(c)), num_heads_(c.num_kv_heads) {
  const int64_t n = plan.num_tiles();
  const int64_t s = plan.seq_len();
  q = drawn(c, c.num_heads, kSeedOfQ);
  k = drawn(c, c.num_kv_heads, 2);
  v = drawn(c, c.num_kv_heads, 3);
  gate = drawn(c, c.num_heads, 4);
  dout = drawn(c, c.num_heads, 5);
  normed = drawn(c, c.num_heads, kSeedOfQ);
  residual = drawn_residual(c);
  modulation = rows(c, c.num_heads, 1, c.head_dim);
  fill_normal(modulation, 7);
  if (c.head_dim % 2 == 0) {
    cos = angles(c, std::cos);
    sin = angles(c, std::sin);
  }
  tiled = OwnedTensor(
      c.dtype,
      {.batch = 1, .num_heads = c.num_heads, .seq_len = plan.padded_len(), .head_dim = c.head_dim},
      Layout::kBhsd);
  for (OwnedTensor* x : {&q_pooled, &normed_pooled, &coarse_out, &dcoarse_out, &dq_pooled}) {
    *x = rows(c, c.num_heads, n, c.head_dim);
  }
  for (OwnedTensor* x : {&k_pooled, &v_pooled, &dk_pooled, &dv_pooled}) {
    *x = rows(c, c.num_kv_heads, n, c.head_dim);
  }
  scores = rows(c, c.num_heads, n, n);
  lut = attention_lut = LutBuffer(table(c, n, c.topk));
  full_lut = LutBuffer::dense(table(c, n, n));
  for (OwnedTensor* x : {&lse, &full_lse, &attention_lse}) *x = rows(c, c.num_heads, s, 1);
  for (OwnedTensor* x : {&untiled, &residual_normed, &fine_out, &full_out, &combined, &out,
                         &attention_fine_out, &dfine_out, &pool_dq, &dq, &dgate}) {
    *x = tokens(c, c.num_heads);
  }
  for (OwnedTensor* x : {&dk, &dv}) *x = tokens(c, c.num_kv_heads);
}

void BenchProblem::prepare(const Context& context, const std::vector<std::string>& stages) {
  for (const std::string& stage : stages) {
    for (std::string s = read_by(stage); !s.empty(); s = read_by(s)) read_.insert(s);
  }
  run_stage("tile", [&] { return on_backend(context, vsa::tile, tile()); });
  run_stage("pool", [&]() -> Status {
    VSA_TRY(on_backend(context, vsa::pool, pool(at(q), at(q_pooled))));
    VSA_TRY(on_backend(context, vsa::pool, pool(at(k), at(k_pooled))));
    return on_backend(context, vsa::pool, pool(at(v), at(v_pooled)));
  });
  run_stage("coarse", [&] { return on_backend(context, vsa::coarse, coarse()); });
  run_stage("select", [&] { return on_backend(context, vsa::select, select()); });
  run_stage("fine", [&] { return on_backend(context, vsa::fine, fine(false)); });
  run_stage("dense", [&] { return on_backend(context, vsa::fine, fine(true)); });
  run_stage("attention", [&] { return on_backend(context, vsa::attention_forward, attention()); });
  run_stage("combine_backward",
            [&] { return on_backend(context, vsa::combine_backward, combine_backward()); });
}

std::string BenchProblem::refusal(const std::string& stage) const {
  for (std::string s = stage; !s.empty(); s = read_by(s)) {
    if (const auto found = refusals_.find(s); found != refusals_.end()) return found->second;
  }
  return "";
}

void BenchProblem::run_stage(const std::string& stage, const std::function<Status()>& call) {
  if (!read_.contains(stage) || !refusal(stage).empty()) return;
  const Status status = call();
  if (status.ok()) return;
  if (status.code() != StatusCode::kUnsupported) check(status);
  refusals_[stage] = of_stage(status.message());
}

void BenchProblem::look_at(int64_t first, int64_t count) {
  first_head_ = first;
  num_heads_ = count;
}

Tensor BenchProblem::at(const OwnedTensor& x) const {
  Tensor view = x.view();
  const int64_t share = view.shape[1] / c.num_kv_heads;
  view.data = static_cast<std::byte*>(view.data) +
              first_head_ * share * view.stride[1] * size_bytes(view.dtype);
  view.shape[1] = num_heads_ * share;
  return view;
}

Lut BenchProblem::at(LutBuffer& table) const { return at_heads(table.view()); }
ConstLut BenchProblem::at(const LutBuffer& table) const { return at_heads(table.view()); }

template <class Table>
Table BenchProblem::at_heads(Table table) const {
  const int64_t share = table.dims.num_heads / c.num_kv_heads;
  const int64_t skipped = first_head_ * share * table.dims.num_q_tiles;
  table.index += skipped * table.dims.pitch;
  table.count += skipped;
  table.dims.num_heads = num_heads_ * share;
  return table;
}

TileArgs BenchProblem::tile() const { return {.x = at(q), .plan = &plan, .tiled = at(tiled)}; }

UntileArgs BenchProblem::untile() const {
  return {.tiled = at(tiled), .plan = &plan, .x = at(untiled)};
}

NormRopePoolArgs BenchProblem::norm_rope_pool() const {
  NormRopePoolArgs args{.x = normed.view(), .plan = &plan};
  args.cos = cos.view();
  args.sin = sin.view();
  args.pooled = normed_pooled.view();
  return args;
}

ResidualNormArgs BenchProblem::residual_norm() const {
  return {.x = residual.view(),
          .y = gate.view(),
          .gate = modulation.view(),
          .scale = modulation.view(),
          .shift = modulation.view(),
          .out = residual_normed.view()};
}

PoolArgs BenchProblem::pool(const ConstTensor& x, const Tensor& pooled) const {
  return {.x = x, .plan = &plan, .pooled = pooled};
}

CoarseArgs BenchProblem::coarse() const {
  return {.q_pooled = at(q_pooled),
          .k_pooled = at(k_pooled),
          .v_pooled = at(v_pooled),
          .kv_plan = &plan,
          .scale = {},
          .coarse_scores = at(scores),
          .coarse_out = at(coarse_out)};
}

SelectArgs BenchProblem::select() {
  return {.coarse_scores = at(scores),
          .options = {.topk = c.topk, .forced_columns = {}, .dense_rows = {}},
          .lut = at(lut)};
}

template <class Args>
Args BenchProblem::on_tokens() const {
  Args args;
  args.q = at(q);
  args.k = at(k);
  args.v = at(v);
  args.q_plan = args.kv_plan = &plan;
  return args;
}

FineArgs BenchProblem::fine(bool full) const {
  auto args = on_tokens<FineArgs>();
  args.lut = full ? at(full_lut) : at(lut);
  args.out = full ? at(full_out) : at(fine_out);
  args.lse = full ? at(full_lse) : at(lse);
  return args;
}

CombineArgs BenchProblem::combine() const {
  return {.fine_out = at(fine_out),
          .coarse_out = at(coarse_out),
          .gate_coarse = Gate::tensor(at(gate)),
          .gate_fine = Gate::one(),
          .q_plan = &plan,
          .out = at(combined)};
}

AttentionArgs BenchProblem::attention() {
  auto args = on_tokens<AttentionArgs>();
  args.gate_coarse = Gate::tensor(at(gate));
  args.select.topk = c.topk;
  args.out = at(out);
  args.lse = at(attention_lse);
  args.fine_out = at(attention_fine_out);
  args.lut_out = at(attention_lut);
  return args;
}

PoolBackwardArgs BenchProblem::pool_backward() const {
  return {.dpooled = at(q_pooled), .plan = &plan, .dx = at(pool_dq)};
}

CoarseBackwardArgs BenchProblem::coarse_backward() const {
  return {.q_pooled = at(q_pooled),
          .k_pooled = at(k_pooled),
          .v_pooled = at(v_pooled),
          .kv_plan = &plan,
          .scale = {},
          .dcoarse_out = at(dcoarse_out),
          .dq_pooled = at(dq_pooled),
          .dk_pooled = at(dk_pooled),
          .dv_pooled = at(dv_pooled)};
}

FineBackwardArgs BenchProblem::fine_backward(bool full) const {
  auto args = on_tokens<FineBackwardArgs>();
  args.lut = full ? at(full_lut) : at(lut);
  args.out = full ? at(full_out) : at(fine_out);
  args.lse = full ? at(full_lse) : at(lse);
  args.dout = at(dout);
  args.dq = at(dq);
  args.dk = at(dk);
  args.dv = at(dv);
  return args;
}

CombineBackwardArgs BenchProblem::combine_backward() const {
  return {.fine_out = at(fine_out),
          .coarse_out = at(coarse_out),
          .gate_coarse = Gate::tensor(at(gate)),
          .gate_fine = Gate::one(),
          .q_plan = &plan,
          .dout = at(dout),
          .dfine_out = at(dfine_out),
          .dcoarse_out = at(dcoarse_out),
          .dgate_coarse = at(dgate),
          .dgate_fine = {}};
}

AttentionBackwardArgs BenchProblem::attention_backward() const {
  auto args = on_tokens<AttentionBackwardArgs>();
  args.gate_coarse = Gate::tensor(at(gate));
  args.lut = at(attention_lut);
  args.lse = at(attention_lse);
  args.fine_out = at(attention_fine_out);
  args.dout = at(dout);
  args.dq = at(dq);
  args.dk = at(dk);
  args.dv = at(dv);
  args.dgate_coarse = at(dgate);
  return args;
}

}  // namespace vsa::cli
