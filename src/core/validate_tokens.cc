// Validation of the stages over tokens without attention: tile, untile, pool, combine. Host-only.
#include "src/core/check_args.h"

namespace vsa {
namespace {

/// [B,H,from,D] -> [B,H,to,D] of one dtype: tile and untile.
Status reorder(ArgCheck& check, std::string_view from_name, const ConstTensor& from,
               int64_t from_len, std::string_view to_name, const Tensor& to, int64_t to_len) {
  VSA_TRY(check.input(from_name, from, check.token_dtypes(),
                      {kAnyExtent, kAnyExtent, from_len, kAnyExtent}));
  VSA_TRY(check.head_dim(from_name, from.shape[3]));
  VSA_TRY(
      check.output(to_name, to, from.dtype, {from.shape[0], from.shape[1], to_len, from.shape[3]}));
  return {};
}

}  // namespace

Status check_args(ArgCheck& check, const TileArgs& args) {
  VSA_TRY(check.plan("plan", args.plan));
  return reorder(check, "x", args.x, args.plan->seq_len(), "tiled", args.tiled,
                 args.plan->padded_len());
}

Status check_args(ArgCheck& check, const UntileArgs& args) {
  VSA_TRY(check.plan("plan", args.plan));
  return reorder(check, "tiled", args.tiled, args.plan->padded_len(), "x", args.x,
                 args.plan->seq_len());
}

Status check_args(ArgCheck& check, const PoolArgs& args) {
  VSA_TRY(check.plan("plan", args.plan));
  const Shape& x = args.x.shape;
  VSA_TRY(check.input("x", args.x, check.token_dtypes(),
                      {kAnyExtent, kAnyExtent, args.plan->seq_len(), kAnyExtent}));
  VSA_TRY(check.head_dim("x", x[3]));
  VSA_TRY(check.output("pooled", args.pooled, check.tile_dtypes(),
                       {x[0], x[1], args.plan->num_tiles(), x[3]}));
  return {};
}

Status check_args(ArgCheck& check, const PoolBackwardArgs& args) {
  VSA_TRY(check.plan("plan", args.plan));
  const Shape& d = args.dpooled.shape;
  VSA_TRY(check.input("dpooled", args.dpooled, check.tile_dtypes(),
                      {kAnyExtent, kAnyExtent, args.plan->num_tiles(), kAnyExtent}));
  VSA_TRY(check.head_dim("dpooled", d[3]));
  VSA_TRY(
      check.output("dx", args.dx, check.token_dtypes(), {d[0], d[1], args.plan->seq_len(), d[3]}));
  return {};
}

Status check_args(ArgCheck& check, const CombineArgs& args) {
  VSA_TRY(check.plan("q_plan", args.q_plan));
  VSA_TRY(check.input("fine_out", args.fine_out, check.token_dtypes(),
                      {kAnyExtent, kAnyExtent, args.q_plan->seq_len(), kAnyExtent}));
  const Shape& s = args.fine_out.shape;
  const DType dtype = args.fine_out.dtype;
  VSA_TRY(check.head_dim("fine_out", s[3]));
  VSA_TRY(check.gate("gate_coarse", args.gate_coarse, dtype, s));
  VSA_TRY(check.gate("gate_fine", args.gate_fine, dtype, s));
  if (!args.coarse_out.empty() || !args.gate_coarse.is_zero()) {
    VSA_TRY(check.input("coarse_out", args.coarse_out, check.tile_dtypes(),
                        {s[0], s[1], args.q_plan->num_tiles(), s[3]},
                        "only with a gate_coarse of 0 may it be left out"));
  }
  VSA_TRY(check.output("out", args.out, dtype, s));
  return {};
}

Status check_args(ArgCheck& check, const CombineBackwardArgs& args) {
  VSA_TRY(check.plan("q_plan", args.q_plan));
  VSA_TRY(check.input("fine_out", args.fine_out, check.token_dtypes(),
                      {kAnyExtent, kAnyExtent, args.q_plan->seq_len(), kAnyExtent}));
  const Shape& s = args.fine_out.shape;
  const Shape tiles{s[0], s[1], args.q_plan->num_tiles(), s[3]};
  const DType dtype = args.fine_out.dtype;
  VSA_TRY(check.head_dim("fine_out", s[3]));
  VSA_TRY(check.gate("gate_coarse", args.gate_coarse, dtype, s));
  VSA_TRY(check.gate("gate_fine", args.gate_fine, dtype, s));
  if (!args.coarse_out.empty() || !args.gate_coarse.is_zero() || !args.dgate_coarse.empty()) {
    VSA_TRY(check.input("coarse_out", args.coarse_out, check.tile_dtypes(), tiles,
                        "only with a gate_coarse of 0 and no dgate_coarse may it be left out"));
  }
  VSA_TRY(check.input("dout", args.dout, dtype, s));
  VSA_TRY(check.output("dfine_out", args.dfine_out, dtype, s));
  VSA_TRY(check.optional_output("dcoarse_out", args.dcoarse_out, check.tile_dtypes(), tiles));
  VSA_TRY(check.optional_output("dgate_coarse", args.dgate_coarse, dtype, s));
  VSA_TRY(check.optional_output("dgate_fine", args.dgate_fine, dtype, s));
  return {};
}

}  // namespace vsa
