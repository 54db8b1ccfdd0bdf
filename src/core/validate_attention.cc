// Validation of the token-level attention: fine and the whole operator. Host-only.
#include "src/core/check_args.h"

namespace vsa {
namespace {

constexpr std::string_view kFromForward = "backward needs what forward wrote there";

/// The extents that q, k, v and their plans agree on.
struct Extents {
  Shape q{};    // [B,H,Sq,D]
  Shape kv{};   // [B,H_kv,Sk,D]
  Shape lse{};  // [B,H,Sq,1]
  LutDims lut;  // least pitch 1
  int64_t num_kv_tiles = 0;
};

/// Context, plans, scale, q, k and v: what all four entrances share.
template <class Args>
Status qkv(ArgCheck& check, const Args& args, Extents& extents) {
  VSA_TRY(check.plan("q_plan", args.q_plan));
  VSA_TRY(check.plan("kv_plan", args.kv_plan));
  VSA_TRY(check.scale(args.scale));
  const Shape& q = args.q.shape;
  VSA_TRY(check.input("q", args.q, check.token_dtypes(),
                      {kAnyExtent, kAnyExtent, args.q_plan->seq_len(), kAnyExtent}));
  VSA_TRY(check.head_dim("q", q[3]));
  VSA_TRY(
      check.input("k", args.k, args.q.dtype, {q[0], kAnyExtent, args.kv_plan->seq_len(), q[3]}));
  VSA_TRY(check.head_groups("k", q[1], args.k.shape[1]));
  VSA_TRY(check.input("v", args.v, args.q.dtype, args.k.shape));
  extents = {.q = q,
             .kv = args.k.shape,
             .lse = {q[0], q[1], q[2], 1},
             .lut = {q[0], q[1], args.q_plan->num_tiles(), 1},
             .num_kv_tiles = args.kv_plan->num_tiles()};
  return {};
}

}  // namespace

Status check_args(ArgCheck& check, const FineArgs& args) {
  Extents e;
  VSA_TRY(qkv(check, args, e));
  VSA_TRY(check.input_lut("lut", args.lut, e.lut, e.num_kv_tiles));
  VSA_TRY(check.output("out", args.out, args.q.dtype, e.q));
  VSA_TRY(check.optional_output("lse", args.lse, check.tile_dtypes(), e.lse));
  if (args.last_key_repeats < 0) {
    return check.fault("last_key_repeats", "a number >= 0", std::to_string(args.last_key_repeats));
  }
  return {};
}

Status check_args(ArgCheck& check, const FineBackwardArgs& args) {
  Extents e;
  VSA_TRY(qkv(check, args, e));
  const DType dtype = args.q.dtype;
  VSA_TRY(check.input_lut("lut", args.lut, e.lut, e.num_kv_tiles));
  VSA_TRY(check.input("out", args.out, dtype, e.q, kFromForward));
  VSA_TRY(check.input("lse", args.lse, check.tile_dtypes(), e.lse, kFromForward));
  VSA_TRY(check.input("dout", args.dout, dtype, e.q));
  VSA_TRY(check.output("dq", args.dq, dtype, e.q));
  VSA_TRY(check.output("dk", args.dk, dtype, e.kv));
  VSA_TRY(check.output("dv", args.dv, dtype, e.kv));
  return {};
}

Status check_args(ArgCheck& check, const AttentionArgs& args) {
  Extents e;
  VSA_TRY(qkv(check, args, e));
  VSA_TRY(check.rounding(args.rounding));
  const DType dtype = args.q.dtype;
  VSA_TRY(check.gate("gate_coarse", args.gate_coarse, dtype, e.q));
  VSA_TRY(check.gate("gate_fine", args.gate_fine, dtype, e.q));
  const Shape q_tiles{e.q[0], e.q[1], e.lut.num_q_tiles, e.q[3]};
  const Shape kv_tiles{e.kv[0], e.kv[1], e.num_kv_tiles, e.kv[3]};
  VSA_TRY(check.optional_input("q_pooled", args.q_pooled, check.tile_dtypes(), q_tiles));
  VSA_TRY(check.optional_input("k_pooled", args.k_pooled, check.tile_dtypes(), kv_tiles));
  VSA_TRY(check.optional_input("v_pooled", args.v_pooled, check.tile_dtypes(), kv_tiles));
  VSA_TRY(check.optional_input("coarse_out", args.coarse_out, check.tile_dtypes(), q_tiles));
  LutDims lut_out = e.lut;
  if (args.lut.empty() && args.lut.count == nullptr) {
    VSA_TRY(check.select_options(args.select, e.lut.num_q_tiles, e.num_kv_tiles));
    lut_out.pitch = lut_pitch(args.select, e.num_kv_tiles);
  } else {
    VSA_TRY(check.input_lut("lut", args.lut, e.lut, e.num_kv_tiles,
                            "leave all of it out to select by scores"));
    lut_out.pitch = args.lut.dims.pitch;
  }
  VSA_TRY(check.output("out", args.out, dtype, e.q));
  VSA_TRY(check.optional_output("lse", args.lse, check.tile_dtypes(), e.lse));
  VSA_TRY(check.optional_output("fine_out", args.fine_out, dtype, e.q));
  if (!args.lut_out.empty() || args.lut_out.count != nullptr) {
    VSA_TRY(check.output_lut("lut_out", args.lut_out, lut_out));
  }
  return {};
}

Status check_args(ArgCheck& check, const AttentionBackwardArgs& args) {
  Extents e;
  VSA_TRY(qkv(check, args, e));
  const DType dtype = args.q.dtype;
  VSA_TRY(check.gate("gate_coarse", args.gate_coarse, dtype, e.q));
  VSA_TRY(check.gate("gate_fine", args.gate_fine, dtype, e.q));
  VSA_TRY(check.input_lut("lut", args.lut, e.lut, e.num_kv_tiles, kFromForward));
  VSA_TRY(check.input("lse", args.lse, check.tile_dtypes(), e.lse, kFromForward));
  VSA_TRY(check.input("fine_out", args.fine_out, dtype, e.q, kFromForward));
  VSA_TRY(check.input("dout", args.dout, dtype, e.q));
  VSA_TRY(check.output("dq", args.dq, dtype, e.q));
  VSA_TRY(check.output("dk", args.dk, dtype, e.kv));
  VSA_TRY(check.output("dv", args.dv, dtype, e.kv));
  VSA_TRY(check.optional_output("dgate_coarse", args.dgate_coarse, dtype, e.q));
  VSA_TRY(check.optional_output("dgate_fine", args.dgate_fine, dtype, e.q));
  return {};
}

}  // namespace vsa
