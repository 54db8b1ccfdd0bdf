// Validation of the stages over tiles: coarse, select. Host-only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "src/core/check_args.h"
#include "src/core/validate.h"

namespace vsa {
namespace {

/// The inputs that coarse and its backward share.
Status pooled_qkv(ArgCheck& check, const ConstTensor& q, const ConstTensor& k, const ConstTensor& v,
                  const TilePlan* kv_plan) {
  VSA_TRY(check.plan("kv_plan", kv_plan));
  VSA_TRY(check.input("q_pooled", q, check.tile_dtypes(),
                      {kAnyExtent, kAnyExtent, kAnyExtent, kAnyExtent}));
  VSA_TRY(check.head_dim("q_pooled", q.shape[3]));
  VSA_TRY(check.input("k_pooled", k, check.tile_dtypes(),
                      {q.shape[0], kAnyExtent, kv_plan->num_tiles(), q.shape[3]}));
  VSA_TRY(check.head_groups("k_pooled", q.shape[1], k.shape[1]));
  return check.input("v_pooled", v, check.tile_dtypes(), k.shape);
}

}  // namespace

float default_scale(int64_t head_dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

int64_t lut_pitch(const SelectOptions& options, int64_t num_kv_tiles) {
  if (!options.dense_rows.empty()) return num_kv_tiles;
  const auto forced = static_cast<int64_t>(options.forced_columns.size());
  return std::min(num_kv_tiles, forced + std::clamp<int64_t>(options.topk, 0, num_kv_tiles));
}

Status check_args(ArgCheck& check, const CoarseArgs& args) {
  VSA_TRY(pooled_qkv(check, args.q_pooled, args.k_pooled, args.v_pooled, args.kv_plan));
  VSA_TRY(check.scale(args.scale));
  VSA_TRY(check.rounding(args.rounding));
  if (args.coarse_scores.empty() && args.coarse_out.empty()) {
    return check.fault("coarse_out", "coarse_scores or coarse_out to write to", "neither");
  }
  const Shape& q = args.q_pooled.shape;
  VSA_TRY(check.optional_output("coarse_scores", args.coarse_scores, check.tile_dtypes(),
                                {q[0], q[1], q[2], args.kv_plan->num_tiles()}));
  VSA_TRY(check.optional_output("coarse_out", args.coarse_out, check.tile_dtypes(), q));
  return {};
}

Status check_args(ArgCheck& check, const CoarseBackwardArgs& args) {
  VSA_TRY(pooled_qkv(check, args.q_pooled, args.k_pooled, args.v_pooled, args.kv_plan));
  VSA_TRY(check.scale(args.scale));
  const DTypes dtypes = check.tile_dtypes();
  VSA_TRY(check.input("dcoarse_out", args.dcoarse_out, dtypes, args.q_pooled.shape));
  VSA_TRY(check.output("dq_pooled", args.dq_pooled, dtypes, args.q_pooled.shape));
  VSA_TRY(check.output("dk_pooled", args.dk_pooled, dtypes, args.k_pooled.shape));
  VSA_TRY(check.output("dv_pooled", args.dv_pooled, dtypes, args.v_pooled.shape));
  return {};
}

Status check_args(ArgCheck& check, const SelectArgs& args) {
  const Shape& s = args.coarse_scores.shape;
  VSA_TRY(check.input("coarse_scores", args.coarse_scores, check.tile_dtypes(),
                      {kAnyExtent, kAnyExtent, kAnyExtent, kAnyExtent}));
  if (s[3] > INT32_MAX) {
    return check.fault("coarse_scores", "at most 2^31 - 1 kv tiles, as indices are int32",
                       std::to_string(s[3]));
  }
  VSA_TRY(check.select_options(args.options, s[2], s[3]));
  VSA_TRY(check.output_lut("lut", args.lut, {s[0], s[1], s[2], lut_pitch(args.options, s[3])}));
  return {};
}

}  // namespace vsa
