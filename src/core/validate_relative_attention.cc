// Validation of relative_attention. Host-only.
#include "src/core/check_args.h"

namespace vsa {

Status check_args(ArgCheck& check, const RelativeAttentionArgs& args) {
  const Shape any{kAnyExtent, kAnyExtent, kAnyExtent, kAnyExtent};
  VSA_TRY(check.input("q", args.q, check.token_dtypes(), any));
  const Shape& q = args.q.shape;
  VSA_TRY(check.row_head_dim("q", q[3]));
  VSA_TRY(check.input("k", args.k, args.q.dtype, {q[0], kAnyExtent, kAnyExtent, q[3]}));
  const Shape& k = args.k.shape;
  VSA_TRY(check.head_groups("k", q[1], k[1]));
  VSA_TRY(check.input("v", args.v, args.q.dtype, k));
  // As their elements are in memory, neither extent is near the end of int64.
  VSA_TRY(check.input("bias", args.bias, check.tile_dtypes(), {q[0], q[1], 1, q[2] + k[2] - 1}));
  VSA_TRY(check.scale(args.scale));
  return check.output("out", args.out, args.q.dtype, q);
}

}  // namespace vsa
