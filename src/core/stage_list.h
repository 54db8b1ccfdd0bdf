// What the list of calls makes of a backend. Host-only.
#pragma once

#include "vsa/stage_list.h"

/// Declares a backend's function: its arguments have been validated, and `scale` is set.
#define VSA_DECLARE_STAGE(stage, Args, fields) \
  Status stage(const Context& context, const Args& args);
/// The entry of the table for the function of that name.
#define VSA_TABLE_ENTRY(stage, Args, fields) .stage = stage,
