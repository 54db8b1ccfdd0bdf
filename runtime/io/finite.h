// Whether the weights of a checkpoint are numbers. Host-only.
#pragma once

#include <string_view>

#include "runtime/io/checkpoint.h"
#include "vsa/status.h"

namespace vsa::io {

/// Looks at every element of every floating-point tensor of 16 bits or more, with all threads.
/// @param model  how messages name it
/// @return IoError naming the tensor, the element and what it is
/// Cost: one pass over the files.
Status check_finite(const Checkpoint& checkpoint, std::string_view model);

}  // namespace vsa::io
