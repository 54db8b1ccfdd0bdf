// Validation of linear. Host-only.
#include <fmt/format.h>

#include "src/core/check_args.h"

namespace vsa {
namespace {

constexpr int64_t kStep = 8;  // of K and N

Status multiple(const ArgCheck& check, std::string_view argument, std::string_view axis,
                int64_t extent) {
  if (extent % kStep == 0) return {};
  return check.fault(argument, fmt::format("{} to be a multiple of {}", axis, kStep),
                     std::to_string(extent));
}

}  // namespace

Status check_args(ArgCheck& check, const LinearArgs& args) {
  const Shape& x = args.x.shape;
  const Shape& weight = args.weight.shape;
  VSA_TRY(check.input("x", args.x, check.token_dtypes(), {1, 1, kAnyExtent, kAnyExtent}));
  VSA_TRY(multiple(check, "x", "its last axis, K,", x[3]));
  VSA_TRY(check.input("weight", args.weight, args.x.dtype, {1, 1, kAnyExtent, x[3]}));
  VSA_TRY(multiple(check, "weight", "its rows, N,", weight[2]));
  if (args.activation != Activation::kNone && args.activation != Activation::kGeluTanh) {
    return check.fault("activation", "kNone or kGeluTanh",
                       std::to_string(static_cast<int>(args.activation)));
  }
  VSA_TRY(check.output("out", args.out, {args.x.dtype, DType::kF32}, {1, 1, x[2], weight[2]}));
  return check.optional_input("bias", args.bias, args.out.dtype, {1, 1, 1, weight[2]});
}

}  // namespace vsa
