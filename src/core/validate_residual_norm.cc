// Validation of residual_norm. Host-only.
#include <fmt/format.h>

#include <cmath>

#include "src/core/check_args.h"

namespace vsa {
namespace {

/// gate, scale or shift, which all tokens of a batch item share.
Status modulation(ArgCheck& check, std::string_view argument, const ConstTensor& t,
                  const Shape& x) {
  if (t.empty()) return {};
  VSA_TRY(check.input(argument, t, check.tile_dtypes(), {x[0], x[1], 1, x[3]}));
  return check.aligned_rows(argument, t);
}

Status none_without(ArgCheck& check, std::string_view argument, const ConstTensor& t,
                    std::string_view other) {
  if (t.empty()) return {};
  return check.fault(argument, fmt::format("none without {}", other), "a tensor");
}

}  // namespace

Status check_args(ArgCheck& check, const ResidualNormArgs& args) {
  const bool adds = !args.y.empty();
  const bool norms = !args.out.empty();
  const Shape any{kAnyExtent, kAnyExtent, kAnyExtent, kAnyExtent};
  const DTypes x_dtypes = check.token_or_tile_dtypes();
  VSA_TRY(adds ? check.output("x", args.x, x_dtypes, any)
               : check.input("x", args.x, x_dtypes, any));
  const Shape& x = args.x.shape;
  VSA_TRY(check.row_head_dim("x", x[3]));
  VSA_TRY(check.aligned_rows("x", args.x));
  if (!adds && !norms) return check.fault("y", "a tensor, as there is no out", "none");
  if (!(std::isfinite(args.eps) && args.eps >= 0.0F)) {
    return check.fault("eps", "a finite number >= 0", fmt::format("{}", args.eps));
  }
  if (args.norm != NormKind::kLayer && args.norm != NormKind::kRms) {
    return check.fault("norm", "kLayer or kRms", std::to_string(static_cast<int>(args.norm)));
  }
  // A residual in f32 goes with branches of any token dtype.
  DTypes dtypes =
      check.tile_dtypes().contains(args.x.dtype) ? check.token_dtypes() : DTypes(args.x.dtype);
  if (adds) {
    VSA_TRY(check.input("y", args.y, dtypes, x));
    dtypes = args.y.dtype;
  }
  VSA_TRY(adds ? modulation(check, "gate", args.gate, x)
               : none_without(check, "gate", args.gate, "y"));
  for (const auto& [name, t] :
       {std::pair<std::string_view, const ConstTensor&>("scale", args.scale),
        {"shift", args.shift}}) {
    VSA_TRY(norms ? modulation(check, name, t, x) : none_without(check, name, t, "out"));
  }
  return check.optional_output("out", args.out, dtypes, x);
}

}  // namespace vsa
