// The stage residual_norm: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/residual_norm/residual_norm.h"

#include <fmt/format.h>

#include <bit>

#include "src/cuda/stages.h"
#include "src/cuda/support/call.h"

namespace vsa::cuda {

TokenSplit token_split(int64_t width) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t pieces = ceil_div(width, kPieceElements);
  const int64_t warps = ceil_div(pieces, int64_t{32} * kMaxTokenPieces);
  const int rounded = narrow(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(warps))));
  return {.warps = rounded, .pieces = narrow(ceil_div(pieces, int64_t{32} * rounded))};
}

Status residual_norm(const Context& context, const ResidualNormArgs& args) {
  const Call call("residual_norm", context);
  const auto& shape = args.x.shape;
  // Both factors are below 2^32, as their rows are in memory.
  if (shape[1] > kMaxTokenWidth / shape[3]) {
    return unsupported(fmt::format(
        "[{}] x: expected at most {} elements in all heads of a token on the cuda backend, got {} "
        "heads of {}; the cpu backend takes any number of heads",
        call.operation(), kMaxTokenWidth, shape[1], shape[3]));
  }
  return call.run(args, [&](const CallSite& at) {
    return run_residual_norm(at,
                             {.x = rows_of(args.x),
                              .y = rows_of(args.y),
                              .gate = rows_of(args.gate),
                              .scale = rows_of(args.scale),
                              .shift = rows_of(args.shift),
                              .out = rows_of(args.out),
                              .eps = args.eps,
                              .norm = args.norm,
                              .num_heads = narrow(shape[1]),
                              .head_dim = narrow(shape[3])},
                             args.x.dtype, args.y.empty() ? args.out.dtype : args.y.dtype, shape);
  });
}

}  // namespace vsa::cuda
