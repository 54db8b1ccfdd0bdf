// What is particular to the arguments of each call, for validate.cc. Host-only.
#pragma once

#include "src/core/arg_check.h"
#include "src/core/stage_list.h"

namespace vsa {

#define VSA_DECLARE_CHECK(stage, Args, fields) Status check_args(ArgCheck& check, const Args& args);
VSA_FOR_EACH_STAGE(VSA_DECLARE_CHECK)
#undef VSA_DECLARE_CHECK

}  // namespace vsa
