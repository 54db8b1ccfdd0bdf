// Validation of each call: its context, its own arguments, and that no output overlaps another
// argument.
// Host-only.
#include "src/core/validate.h"

#include "src/core/check_args.h"

namespace vsa {

#define VSA_DEFINE_VALIDATE(stage, Args, fields)                                           \
  Status validate(const BackendTraits& traits, const Context& context, const Args& args) { \
    ArgCheck check(#stage, traits, context);                                               \
    VSA_TRY(check.context());                                                              \
    VSA_TRY(check_args(check, args));                                                      \
    return check.separate_outputs();                                                       \
  }
VSA_FOR_EACH_STAGE(VSA_DEFINE_VALIDATE)

}  // namespace vsa
