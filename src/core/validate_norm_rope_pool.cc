// Validation of norm_rope_pool. Host-only.
#include <fmt/format.h>

#include <cmath>

#include "src/core/check_args.h"

namespace vsa {
namespace {

Status norm(ArgCheck& check, const NormRopePoolArgs& args) {
  const Shape& x = args.x.shape;
  if (args.norm == NormOver::kNothing) {
    if (args.weight.empty() && args.rstd.empty()) return {};
    return check.fault(args.weight.empty() ? "rstd" : "weight", "none without a norm", "a tensor");
  }
  if (args.norm != NormOver::kHead && args.norm != NormOver::kAllHeads) {
    return check.fault("norm", "kNothing, kHead or kAllHeads",
                       std::to_string(static_cast<int>(args.norm)));
  }
  if (!(std::isfinite(args.eps) && args.eps >= 0.0F)) {
    return check.fault("eps", "a finite number >= 0", fmt::format("{}", args.eps));
  }
  if (!args.weight.empty()) {
    VSA_TRY(check.input("weight", args.weight, check.tile_dtypes(), {1, x[1], 1, x[3]}));
  }
  if (args.rstd.empty()) return {};
  const int64_t heads = args.norm == NormOver::kHead ? x[1] : 1;
  return check.input("rstd", args.rstd, check.tile_dtypes(), {x[0], heads, x[2], 1});
}

}  // namespace

Status check_args(ArgCheck& check, const NormRopePoolArgs& args) {
  VSA_TRY(check.plan("plan", args.plan));
  const Shape& x = args.x.shape;
  VSA_TRY(check.output("x", args.x, check.token_dtypes(),
                       {kAnyExtent, kAnyExtent, args.plan->seq_len(), kAnyExtent}));
  VSA_TRY(check.head_dim("x", x[3]));
  VSA_TRY(norm(check, args));
  if (args.cos.empty() != args.sin.empty()) {
    return check.fault(args.cos.empty() ? "cos" : "sin", "both cos and sin, or neither", "none");
  }
  if (!args.cos.empty()) {
    VSA_TRY(check.input("cos", args.cos, check.tile_dtypes(), {1, 1, x[2], x[3] / 2}));
    VSA_TRY(check.input("sin", args.sin, check.tile_dtypes(), {1, 1, x[2], x[3] / 2}));
  }
  VSA_TRY(check.optional_output("pooled", args.pooled, check.tile_dtypes(),
                                {x[0], x[1], args.plan->num_tiles(), x[3]}));
  return {};
}

}  // namespace vsa
