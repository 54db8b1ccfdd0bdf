// The stage norm_rope_pool: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/norm_rope_pool/norm_rope_pool.h"

#include <fmt/format.h>

#include "src/cuda/stages.h"

namespace vsa::cuda {
namespace {

/// Checks cos or sin, which the kernel reads 16 bytes at a time.
Status check_angles(std::string_view operation, std::string_view argument, const ConstTensor& t) {
  if (reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride[2] % 4 == 0) return {};
  return unsupported(
      fmt::format("[{}] {}: expected rows at multiples of 16 bytes on the cuda "
                  "backend, got address {} and stride {}",
                  operation, argument, t.data, t.stride[2]));
}

}  // namespace

Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args) {
  Call call("norm_rope_pool", context);
  if (!args.cos.empty()) {
    VSA_TRY(check_angles(call.operation(), "cos", args.cos));
    VSA_TRY(check_angles(call.operation(), "sin", args.sin));
  }
  const PlanTables plans(call.operation(), call.workspace, args.plan);
  return run(call, plans, args, [&](const CallSite& at) {
    return run_norm_rope_pool(at,
                              {.x = rows_of(args.x),
                               .plan = plans.q(),
                               .weight = rows_of(args.weight),
                               .rstd = rows_of(args.rstd),
                               .cos = rows_of(args.cos),
                               .sin = rows_of(args.sin),
                               .pooled = rows_of(args.pooled),
                               .norm = args.norm,
                               .eps = args.eps,
                               .num_heads = narrow(args.x.shape[1]),
                               .head_dim = narrow(args.x.shape[3])},
                              args.x.dtype, args.x.shape[0]);
  });
}

}  // namespace vsa::cuda
