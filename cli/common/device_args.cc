// The arguments of each call, copied to the device.
#include <string_view>
#include <type_traits>

#include "cli/common/device.h"

namespace vsa::cli {
namespace {

template <class Field, class... Types>
constexpr bool kIsOneOf = (std::is_same_v<Field, Types> || ...);

/// Whether a call reads the tensor that it writes.
template <class Args>
constexpr bool changes(std::string_view field) {
  return kIsOneOf<Args, NormRopePoolArgs, ResidualNormArgs, PixelNormArgs> && field == "x";
}

/// A field of the arguments as it is for a call on the device.
template <class Args, class Field>
Field placed(Device& device, const Field& field, std::string_view name) {
  if constexpr (kIsOneOf<Field, ConstTensor, ConstLut, Gate>) return device.in(field);
  if constexpr (kIsOneOf<Field, Tensor>) {
    return changes<Args>(name) ? device.in_out(field) : device.out(field);
  }
  if constexpr (kIsOneOf<Field, Lut>) return device.out(field);
  return field;  // plans, options and numbers are host memory everywhere
}

}  // namespace

#define F(field) args.field = placed<decltype(args)>(device, args.field, #field);
#define VSA_DEFINE_ON_DEVICE(stage, Args, fields) \
  Args on_device(Device& device, Args args) { fields return args; }
VSA_FOR_EACH_STAGE(VSA_DEFINE_ON_DEVICE)
#undef F

}  // namespace vsa::cli
