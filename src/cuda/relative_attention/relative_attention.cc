// The stage relative_attention: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/relative_attention/relative_attention.h"

#include <fmt/format.h>

#include "src/cuda/stages.h"
#include "src/cuda/support/call.h"

namespace vsa::cuda {
namespace {

/// Positions are 32-bit numbers in the kernel, their differences and the last tile included.
constexpr int64_t kMostTokens = int64_t{1} << 30;

}  // namespace

Status relative_attention(const Context& context, const RelativeAttentionArgs& args) {
  const Call call("relative_attention", context);
  const auto& shape = args.q.shape;
  const int64_t num_keys = args.k.shape[2];
  if (shape[2] > kMostTokens || num_keys > kMostTokens) {
    return unsupported(fmt::format(
        "[{}] q, k: expected at most {} tokens on the cuda backend, got {} queries and {} keys",
        call.operation(), kMostTokens, shape[2], num_keys));
  }
  return call.run(args, [&](const CallSite& at) {
    return run_relative_attention(at,
                                  {.q = rows_of(args.q),
                                   .k = rows_of(args.k),
                                   .v = rows_of(args.v),
                                   .bias = rows_of(args.bias),
                                   .out = rows_of(args.out),
                                   .scale = *args.scale,
                                   .num_queries = narrow(shape[2]),
                                   .num_keys = narrow(num_keys),
                                   .group_size = narrow(shape[1] / args.k.shape[1]),
                                   .head_dim = narrow(shape[3])},
                                  args.q.dtype, shape);
  });
}

}  // namespace vsa::cuda
