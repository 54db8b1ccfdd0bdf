// The one place where arguments of a call are checked, for every entrance and backend. Host-only.
#pragma once

#include "src/core/stage_list.h"

namespace vsa {

/// Whether the arguments are what stages.h and attention.h ask for, and what a backend of these
/// traits takes. Reads the lists among them, and tables in host memory; no tensor, no output.
/// @return InvalidArgument | Unsupported (dtype or head_dim that this backend lacks)
/// Cost: one read of the look-up table, if there is one.
#define VSA_DECLARE_VALIDATE(stage, Args, fields) \
  Status validate(const BackendTraits& traits, const Context& context, const Args& args);
VSA_FOR_EACH_STAGE(VSA_DECLARE_VALIDATE)
#undef VSA_DECLARE_VALIDATE

/// The softmax scale where the caller gives none: 1 / sqrt(head_dim).
float default_scale(int64_t head_dim);

}  // namespace vsa
