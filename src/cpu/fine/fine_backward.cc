// The fine stage's gradients: two walks over the table, one for dq and one for dk and dv.
// Host-only.
//
// The walks run one after the other and share no memory, so that the peak is the larger of theirs:
// three packed tensors of one kv head, or two of one query head.
#include "src/cpu/fine/fine_backward.h"

#include <algorithm>
#include <numbers>

#include "src/cpu/stages.h"
#include "src/cpu/support/padding.h"

namespace vsa::cpu {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;
constexpr float kLn2 = std::numbers::ln2_v<float>;

// Heads below 12 MiB of packed floats share a pass; see packed_heads.cc.
constexpr int64_t kMaxPassFloats = int64_t{3} << 20;

}  // namespace

FineBackwardCall::FineBackwardCall(const Context& context_in, const FineBackwardArgs& args_in,
                                   const FineBackwardExtras& extras_in)
    : context(context_in),
      args(args_in),
      extras(extras_in),
      q_plan(*args.q_plan),
      kv_plan(*args.kv_plan),
      head_dim(args.q.shape[3]),
      ld(round_up_lanes(head_dim)),
      num_kv_heads(args.k.shape[0] * args.k.shape[1]),
      group_size(args.q.shape[1] / args.k.shape[1]),
      transposed_floats(head_dim * round_up_lanes(kv_plan.tile_tokens())),
      kv_floats(kv_plan.tile_tokens() * ld),
      q_floats(q_plan.tile_tokens() * ld),
      scratch_floats(fine_backward_scratch_size(q_plan.tile_tokens(), kv_plan.tile_tokens())) {}

int64_t FineBackwardCall::heads_per_pass(int64_t head_floats) const {
  return std::clamp<int64_t>(kMaxPassFloats / head_floats, 1, num_kv_heads);
}

void FineBackwardCall::load_queries(int64_t head, int64_t i, const QueryTile& to) const {
  const int64_t b = head / args.q.shape[1];
  const int64_t h = head % args.q.shape[1];
  load_rows(tile_rows(args.q, b, h, q_plan, i), head_dim, to.q, ld);
  scale_rows(to.q, q_plan.tile_len(i) * ld, *args.scale * kLog2E);
  load_output_gradient({.dout = tile_rows(args.dout, b, h, q_plan, i),
                        .out = tile_rows(args.out, b, h, q_plan, i),
                        .gate = gate_rows(extras.gate_fine, b, h, q_plan, i),
                        .head_dim = head_dim},
                       to.dout, to.delta);
  const Rows lse = tile_rows(args.lse, b, h, q_plan, i);
  for (int64_t r = 0; r < lse.count; ++r) {
    to.lse_log2[r] = *static_cast<const float*>(lse.at(r)) * kLog2E;
  }
}

void FineBackwardCall::store_dq(const float* dq, int64_t head, int64_t i) const {
  const int64_t b = head / args.q.shape[1];
  const int64_t h = head % args.q.shape[1];
  store_gradient(dq, *args.scale, f32_row(extras.dq_pooled, b, h, i), head_dim,
                 tile_rows(args.dq, b, h, q_plan, i));
}

void FineBackwardCall::store_dkv(const float* dk, const float* dv, int64_t kv_head,
                                 int64_t j) const {
  const int64_t b = kv_head / args.k.shape[1];
  const int64_t h = kv_head % args.k.shape[1];
  store_gradient(dk, kLn2, f32_row(extras.dk_pooled, b, h, j), head_dim,
                 tile_rows(args.dk, b, h, kv_plan, j));
  store_gradient(dv, 1.0F, f32_row(extras.dv_pooled, b, h, j), head_dim,
                 tile_rows(args.dv, b, h, kv_plan, j));
}

Status fine_backward(const Context& context, const FineBackwardArgs& args,
                     const FineBackwardExtras& extras) {
  const FineBackwardCall call(context, args, extras);
  zero_padding(args.dq, call.q_plan);
  zero_padding(args.dk, call.kv_plan);
  zero_padding(args.dv, call.kv_plan);
  fine_backward_dq(call);
  fine_backward_dkv(call);
  return {};
}

Status fine_backward(const Context& context, const FineBackwardArgs& args) {
  return cpu::fine_backward(context, args, {});
}

}  // namespace vsa::cpu
